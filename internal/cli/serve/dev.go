package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/regularfile"
	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// In a terminal a user wants to see a change at once, and to measure one host often costs nothing.
const (
	devTick     = time.Second
	devInterval = time.Second
	devSuspect  = 10 // intervals: a laptop that is busy is not gone
)

// devFlags are those of dev.
type devFlags struct {
	listen, dataDir, socket string
	quotas                  []string
	providers               string
	agentConfig             string
	demo                    bool
}

func devCommand(c *cmdline.Invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Everything in one process, to try it on this machine",
		Long: `Dev runs a coordinator with an embedded store and an agent of this machine in
one process, until it is interrupted. It really measures this machine. It keeps
what it knows in --data-dir and finds it again at the next start.

With --agent-config its agent has the settings of that file, which is written as
an agent's configuration: above all engines.policies, which say what becomes of
engines that use too much, and trustedUsers. Settings that dev decides itself
are refused: coordinators, tls, tokenFile, cluster, discovery, consul, socket,
stateDir and logLevel.

Its coordinator starts engines here for this user (bursar submit, bursar run
--remote), as this user. If root runs dev, it starts none as root: with sudo, it
starts them as the user of sudo, for that user and for root; otherwise as the
accounts that engines.remote.accounts of --agent-config names.`,
		Example: `  bursar dev
  bursar dev --quotas examples/quotas.yaml

  # show the main job with real processes
  bursar dev --demo

  # an agent that limits engines, and one user who may act as any
  printf 'trustedUsers: [hadoop]
  engines: {policies: [{onOverUse: limit}]}
  ' > agent.yaml; bursar dev --agent-config agent.yaml

  # read the queues of other clusters
  bursar dev --providers examples/providers.yaml

  bursar dev --listen 127.0.0.1:0 --data-dir /tmp/b \
    --agent-socket /tmp/b/agent.sock`,
		Args:              cmdline.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	var f devFlags
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:7070", "address of the coordinator")
	flags.StringVar(&f.dataDir, "data-dir", "", "directory that everything is kept in (default "+devDataDir()+")")
	flags.StringVar(&f.socket, "agent-socket", "", "path of the agent's socket (default "+servers.OwnSocket()+")")
	flags.StringArrayVar(&f.quotas, "quotas", nil, "file of quota rules to keep in force; repeatable")
	flags.StringVar(&f.providers, "providers", "", "file of the clusters whose queues limit requests")
	_ = cmd.MarkFlagFilename("providers", "yaml", "yml")
	flags.StringVar(&f.agentConfig, "agent-config", "", "file of settings for the agent, such as engines.policies and trustedUsers")
	_ = cmd.MarkFlagFilename("agent-config", "yaml", "yml")
	flags.BoolVar(&f.demo, "demo", false, "show the main job first: one engine granted, one that waits for it, one refused")
	logs := addLogFlags(cmd, "warn")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log, err := logs.logger(c.Err, "")
		if err != nil {
			return err
		}
		ctx, interrupts := cmdline.CatchEnds(cmd.Context())
		defer interrupts.Stop()
		return serverError(serveBoth(ctx, c, f, log))
	}
	return cmd
}

// devDataDir is a directory of the user's own.
func devDataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/bursar/dev"
	}
	if state := os.Getenv("XDG_STATE_HOME"); state != "" {
		return filepath.Join(state, "bursar", "dev")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state", "bursar", "dev")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("bursar-%d", os.Geteuid()), "dev")
}

// dev runs both servers until ctx ends. The agent ends first, so that it can send its last report.
func serveBoth(ctx context.Context, c *cmdline.Invocation, f devFlags, log *slog.Logger) error {
	began := time.Now()
	for dir, fallback := range map[*string]string{&f.dataDir: devDataDir(), &f.socket: servers.OwnSocket()} {
		path, err := filepath.Abs(cmp.Or(*dir, fallback))
		if err != nil {
			return fmt.Errorf("current directory: %w", err)
		}
		*dir = path
	}
	config, _, err := devAgentConfig(ctx, f, "http://"+f.listen)
	if err != nil {
		return err // before anything is made
	}
	if err := privateDir(filepath.Dir(f.socket)); err != nil {
		return err
	}
	if err := makeDataDir(f.dataDir, f.dataDir == devDataDir()); err != nil {
		return err
	}
	by := newProgram(ctx, c, "bursar-dev", log)
	server, err := openCoordinator(ctx, coordinator.Config{
		Listen: f.listen, DataDir: filepath.Join(f.dataDir, "coordinator"), QuotaFiles: f.quotas, ProvidersFile: f.providers,
		Times: coordinator.Times{Interval: devInterval, SuspectAfter: devSuspect},
	}, &configuration{set: map[string]string{"listen": "--listen", "dataDir": "--data-dir", "quotaFiles": "--quotas", "providersFile": "--providers"}}, by, log, func() {}, config.Engines.Remote.Accounts...)
	if err != nil && ctx.Err() != nil {
		return nil // it was stopped
	}
	if err != nil {
		return err
	}
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Run(serving) })
	group.Go(func() error {
		defer stopServing()
		return devAgent(ctx, c, f, server, by, log, began)
	})
	return group.Wait()
}

// devAgent runs the agent as soon as there is a coordinator, and prints when it is ready.
func devAgent(ctx context.Context, c *cmdline.Invocation, f devFlags, server *coordinator.Server, by program, log *slog.Logger, began time.Time) error {
	select {
	case <-server.Ready():
	case <-ctx.Done():
		return nil
	}
	target := "http://" + server.Address()
	config, loaded, err := devAgentConfig(ctx, f, target)
	if err != nil {
		return err
	}
	if config.Engines.Keeper == "" {
		config.Engines.Keeper = devKeeper(c.Printer)
	}
	host, err := openAgent(ctx, c, config, loaded, agentStart{by: by, asItself: true}, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer cancel()
		return loaded.explain(host.Run(ctx))
	})
	group.Go(func() error {
		select {
		case <-host.Ready():
		case <-ctx.Done():
			return nil
		}
		return devUp(ctx, c, f, target, host.HostID(), config.Engines.Remote.Accounts, time.Since(began))
	})
	return group.Wait()
}

// keeperName is the name of the program that is the parent of engines which the agent starts.
const keeperName = "bursar-keeper"

// devKeeper is the path of the keeper: next to this program, on the search path, or where packages
// put it. If it is nowhere, dev says so and goes on, because most commands do without it.
func devKeeper(out *render.Printer) string {
	own, err := os.Executable()
	if err != nil {
		own = "/usr/bin/bursar"
	}
	sibling := filepath.Join(filepath.Dir(own), keeperName)
	found, _ := exec.LookPath(keeperName)
	for _, path := range []string{sibling, found, "/usr/libexec/bursar/" + keeperName} {
		if info, err := os.Stat(path); filepath.IsAbs(path) && err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	out.Sayf("bursar: the program %s is missing: engines cannot be started in the background (bursar run --detach). It is a second, small program, which is built with bursar: "+
		"want it next to this one, as `make build` puts it, or `go build -o %s ./cmd/bursar-keeper`", keeperName, spelling.Shell(sibling))
	return sibling
}

// devUp prints the servers that run and the commands to type next.
func devUp(ctx context.Context, c *cmdline.Invocation, f devFlags, target, hostID string, accounts []string, took time.Duration) error {
	c.Addr, c.Agent = target, f.socket
	cl, err := c.Coordinator(ctx)
	if err != nil {
		return err
	}
	res, err := cl.Hosts().Get(ctx, &bursarv1.HostServiceGetRequest{Id: hostID})
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // interrupted
		}
		return err
	}
	limit := res.GetHost().GetAccount().GetLimit()
	c.Printf("bursar %s is up after %s\n", c.Version, took.Round(time.Millisecond))
	c.Facts(
		"  coordinator", target,
		"  agent", f.socket,
		"  data", f.dataDir,
		"  host", fmt.Sprintf("%s gives away %s and %s, measured free now: %s", hostID,
			render.AmountText(resource.Memory, limit.GetMemoryBytes()), render.AmountText(resource.CPU, limit.GetCpuMillis()), render.Headroom(res.GetHost())),
		"  launches", devLaunches(accounts),
	)
	if f.demo {
		if err := showDemo(ctx, c, cl, res.GetHost()); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // interrupted
			}
			return err
		}
	}
	c.Printf("\nin another terminal:\n")
	c.Printf("  export BURSAR_ADDR=%s\n  export BURSAR_AGENT=%s\n", target, f.socket)
	c.Printf(`  bursar run --memory 256MiB --cpu 500m --label user=$USER --label creator=shell --label engineType=demo -- sleep 60
  bursar hosts
  bursar allocations
  bursar explain --memory 256MiB --cpu 500m --label user=$USER
`)
	return nil
}

// devLaunches says as whom the coordinator may have engines started.
func devLaunches(accounts []string) string {
	if len(accounts) == 0 {
		return "none for callers of the coordinator (bursar submit), because dev runs as root: name accounts in the file of --agent-config, in engines.remote.accounts"
	}
	return "for callers of the coordinator (bursar submit), as " + strings.Join(accounts, ", ")
}

// makeDataDir makes the folder of all data if root runs dev: other users can enter it, as their
// engines' logs are below it, and cannot list it. Its files keep modes of their own. An earlier
// version made the standard one for root alone.
func makeDataDir(dir string, standard bool) error {
	if os.Geteuid() != 0 {
		return nil
	}
	const mode = 0o711
	if err := regularfile.MakeFolders(dir, mode); err != nil {
		return nil //nolint:nilerr // the store cannot make it either, and says what is wrong
	}
	if info, err := os.Stat(dir); standard && err == nil && info.Mode().Perm() == 0o700 && servers.OwnedByUs(dir) {
		if err := os.Chmod(dir, mode); err != nil {
			return failure.Config(fmt.Errorf("--data-dir: %w", err))
		}
	}
	return nil
}

// privateDir makes the folder of the socket if it is missing. It is for its owner alone; root's is
// for all, since root's agent serves every user of the machine. A folder that exists stays as it
// is.
func privateDir(dir string) error {
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o755
	}
	if err := regularfile.MakeFolders(dir, mode); err != nil {
		return failure.Config(fmt.Errorf("make the socket's folder: %w", err))
	}
	if !servers.OwnedByUs(dir) && dir == filepath.Dir(servers.OwnSocket()) {
		return failure.Config(errors.New(dir + ": belongs to somebody else, or others may write to it: want --agent-socket in another place"))
	}
	return nil
}

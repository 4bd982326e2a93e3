package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/test/proc"
)

// daemon is a server process of the shipped binary.
type daemon struct {
	command *exec.Cmd
	address string // of the coordinator, or the agent's socket
	took    time.Duration
}

// startTimeout bounds the start of a server.
const startTimeout = time.Minute

// start starts the shipped binary with a configuration, and waits until ready returns no error.
func (r *run) start(ctx context.Context, kind, config string, ready func(context.Context) error) (*daemon, error) {
	path := filepath.Join(r.dir, fmt.Sprintf("%s-%d.yaml", kind, time.Now().UnixNano()))
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	command := exec.Command(r.bursar, kind, "--config", path, "--log-level", "warn") //nolint:gosec,noctx // the binary to measure; stop ends it in order
	command.Stdout, command.Stderr = r.log, r.log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	d := &daemon{command: command}
	began := time.Now()
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := await(ctx, time.Millisecond, ready); err != nil {
		return nil, errors.Join(fmt.Errorf("%s does not serve: %w", kind, err), d.kill())
	}
	d.took = time.Since(began)
	return d, nil
}

// await calls ask until it returns no error. If ctx ends, the error is the last one.
func await(ctx context.Context, every time.Duration, ask func(context.Context) error) error {
	retry := time.NewTicker(every)
	defer retry.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// stop ends the server and waits for it.
func (d *daemon) stop() error {
	if err := d.command.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return d.command.Wait()
}

func (d *daemon) kill() error {
	return errors.Join(d.command.Process.Kill(), d.command.Wait())
}

func (d *daemon) pid() int { return d.command.Process.Pid }

// setup configures a coordinator and its surroundings. An empty field means the product's default.
type setup struct {
	dir      string        // for an embedded store
	store    string        // address of a database
	consul   string        // address of the Consul for elections; empty: no election
	interval time.Duration // between two reports of a host
	patient  bool          // hosts become suspect only after more than a minute without a report
	known    string        // file of identities; empty: the kernel identifies local callers
	output   string        // rate limit of engines' output, to one reader and to all
}

// configure returns the configuration of a coordinator that serves on an address.
func (s setup) configure(address string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %s\ndataDir: %s\n", address, s.dir)
	if s.store != "" {
		fmt.Fprintf(&b, "store: %q\n", s.store)
	}
	if s.consul != "" {
		fmt.Fprintf(&b, "advertise: http://%s\nelection: consul\nconsul: {address: %q}\n", address, s.consul)
	} else {
		b.WriteString("election: alone\n")
	}
	if s.known != "" {
		fmt.Fprintf(&b, "identities: %q\nauditLog: %q\n", s.known, s.known+".audit")
	}
	if s.output != "" {
		fmt.Fprintf(&b, "output: {callerRate: %[1]s, rate: %[1]s}\n", s.output)
	}
	var times []string
	if s.interval > 0 {
		times = append(times, "interval: "+s.interval.String(), "lostAfter: "+never.String()) // hosts of the ledger need not report
	}
	if s.patient {
		times = append(times, "suspectAfter: 10")
	}
	if len(times) > 0 {
		fmt.Fprintf(&b, "times: {%s}\n", strings.Join(times, ", "))
	}
	return b.String()
}

// startCoordinator starts a coordinator on a directory. Its hosts need not report, unless there is
// an interval for their reports.
func (r *run) startCoordinator(ctx context.Context, dir string, interval time.Duration) (*daemon, error) {
	return r.startAlone(ctx, setup{dir: dir, interval: interval})
}

// startAlone starts a single coordinator.
func (r *run) startAlone(ctx context.Context, s setup) (*daemon, error) {
	address, err := proc.FreeAddress()
	if err != nil {
		return nil, err
	}
	return r.startAt(ctx, s, address)
}

// startAt starts a single coordinator on an address.
func (r *run) startAt(ctx context.Context, s setup, address string) (*daemon, error) {
	d, err := r.start(ctx, "coordinator", s.configure(address), func(ctx context.Context) error { return probe(ctx, "http://"+address+"/readyz") })
	if err != nil {
		return nil, err
	}
	d.address = address
	return d, nil
}

// startAgent starts an agent of this machine, the host "bench". discovery is the part of its
// configuration that locates the coordinators.
func (r *run) startAgent(ctx context.Context, dir, discovery string, coordinators *client.Client, tick time.Duration) (*daemon, error) {
	socket := filepath.Join(dir, "agent.sock")
	config := fmt.Sprintf("hostId: bench\nsocket: %s\nstateDir: %s\n%s\ntick: %s\ncapacity: {instances: \"100000\"}\n",
		socket, filepath.Join(dir, "agent"), discovery, tick)
	d, err := r.start(ctx, "agent", config, func(ctx context.Context) error {
		res, err := coordinators.Hosts().Get(ctx, &bursarv1.HostServiceGetRequest{Id: "bench"})
		if err == nil && res.GetHost().GetUnavailableReason() != "" {
			err = errors.New(res.GetHost().GetUnavailableReason())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	d.address = socket
	return d, nil
}

// startAgentOf starts an agent of one coordinator, with additional lines in its configuration.
func (r *run) startAgentOf(ctx context.Context, dir string, coordinator *daemon, tick time.Duration, config string) (*daemon, error) {
	c, err := client.New(coordinator.address, client.WithoutRetries())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return r.startAgent(ctx, dir, fmt.Sprintf("coordinators: [%q]\n%s", "http://"+coordinator.address, config), c, tick)
}

// never is an interval for hosts that do not report during a run.
const never = 1000 * time.Hour

func probe(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("probe: %s", response.Status)
	}
	return err
}

// setRules sets the workload's rules in a coordinator.
func setRules(ctx context.Context, c *client.Client, w *workload) error {
	quotas, err := w.quotas()
	if err != nil {
		return err
	}
	for _, q := range quotas {
		if _, err := c.Quotas().Put(ctx, &bursarv1.PutRequest{Quota: &bursarv1.Quota{
			Selector: convert.LabelsToProto(q.Selector.Labels()), Limit: convert.VectorToProto(q.Limit),
		}}); err != nil {
			return fmt.Errorf("rules: %w", err)
		}
	}
	return nil
}

// populate sets the workload's rules in a coordinator and registers its hosts.
func populate(ctx context.Context, c *client.Client, w *workload) error {
	if err := setRules(ctx, c, w); err != nil {
		return err
	}
	capacity, err := w.Host.vector()
	if err != nil {
		return err
	}
	for i := range w.Hosts {
		registered, err := c.Hosts().Register(ctx, &bursarv1.RegisterRequest{
			HostId: hostName(i), Address: hostName(i) + ":7071", Capacity: convert.VectorToProto(capacity), Incarnation: 1, BootId: "boot",
		})
		if err != nil {
			return fmt.Errorf("populate: %w", err)
		}
		if _, err := c.Hosts().Sync(ctx, &bursarv1.SyncRequest{
			HostId: hostName(i), Incarnation: 1, Sequence: 1, Epoch: registered.GetEpoch(), BootId: "boot", Full: true,
			Sample: &bursarv1.HostSample{
				MemoryTotalBytes: new(capacity.Memory()), MemoryAvailableBytes: new(capacity.Memory()), MemorySafetyBytes: proto.Int64(0),
			},
		}); err != nil {
			return fmt.Errorf("populate: %w", err)
		}
	}
	return nil
}

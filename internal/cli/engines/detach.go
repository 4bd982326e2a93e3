package engines

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/launches"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/requests"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// launchTimeout bounds the start of an engine, with the time that it takes to confirm it.
const launchTimeout = time.Minute

// detachFlags say how the agent starts a command in place of this program.
type detachFlags struct {
	detach          bool
	user, dir, logs string
	env             []string
	allEnv          bool
	limit           bool
}

// detachOnly are the flags that mean nothing without --detach.
func detachOnly() []string { return []string{"user", "workdir", "log-dir", "env-all"} }

func addDetachFlags(cmd *cobra.Command) *detachFlags {
	f := &detachFlags{}
	flags := cmd.Flags()
	flags.BoolVar(&f.detach, "detach", false, "let the agent start the command and keep it, print its allocation's ID, and do not wait")
	flags.StringVar(&f.user, "user", "", "with --detach: the account that it runs as; only trusted callers may name another than their own")
	flags.StringVar(&f.dir, "workdir", "", "with --detach: the directory it runs in (default the current one, with --user that user's home)")
	flags.StringVar(&f.logs, "log-dir", "", "with --detach or --remote: the folder on its host for its files stdout and stderr (default: the agent makes one)")
	flags.StringArrayVar(&f.env, "env", nil, "NAME=VALUE in its environment, or NAME for the value it has here; repeatable")
	flags.BoolVar(&f.allEnv, "env-all", false, "with --detach: all of this program's environment but secrets of bursar")
	_ = cmd.MarkFlagDirname("workdir")
	_ = cmd.MarkFlagDirname("log-dir")
	return f
}

// check refuses flags that contradict each other.
func (f *detachFlags) check(cmd *cobra.Command) error {
	if f.detach {
		if cmd.Flags().Changed("grace") {
			return failure.Usagef("--grace: with --detach nothing stops the command: want bursar stop ID --grace")
		}
		return nil
	}
	for _, name := range detachOnly() {
		if cmd.Flags().Changed(name) {
			return failure.Usagef("--%s: want --detach next to it", name)
		}
	}
	return nil
}

// launch is the request to the agent.
func (f *detachFlags) launch(id string, args []string) (*bursarv1.LaunchRequest, error) {
	req := &bursarv1.LaunchRequest{Id: id, Command: args, User: f.user, WorkingDirectory: f.dir, Environment: make(map[string]string), Limit: f.limit}
	if f.allEnv {
		for _, pair := range inherited() {
			if name, value, _ := strings.Cut(pair, "="); name != "" {
				req.Environment[name] = value
			}
		}
	}
	pairs, err := launches.NamedVariables(f.env)
	if err != nil {
		return nil, err
	}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		req.Environment[name] = value
	}
	// The agent has another current directory.
	paths := []*string{&req.WorkingDirectory}
	if f.dir == "" && f.user == "" {
		req.WorkingDirectory = "."
	}
	if strings.Contains(args[0], "/") {
		req.Command = append([]string{args[0]}, args[1:]...)
		paths = append(paths, &req.Command[0])
	}
	if f.logs != "" {
		req.Logs = &bursarv1.LaunchLogs{Directory: f.logs}
		paths = append(paths, &req.Logs.Directory)
	}
	for _, path := range paths {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return nil, fmt.Errorf("current directory: %w", err)
		}
		*path = absolute
	}
	return req, nil
}

// runDetached makes the agent start a command when there is room for it. If the start fails, it
// gives the grant back.
func runDetached(ctx context.Context, c *failure.Reporter, cl *client.Client, req *bursarv1.AllocateRequest, args []string, f *detachFlags) error {
	wanted, err := f.launch("", args)
	if err != nil {
		return err
	}
	req.Limit = f.limit
	allocation, err := requests.Allocate(ctx, c, cl, req)
	if err != nil {
		return err
	}
	sayNormalized(c.Printer, allocation)
	wanted.Id = allocation.GetId()
	launching, cancel := context.WithTimeout(ctx, launchTimeout)
	defer cancel()
	launched, err := cl.Engines().Launch(launching, wanted)
	if err != nil {
		giveBack(ctx, c, cl, allocation.GetId(), err)
		return launchEnd(err)
	}
	if f.limit && !launched.GetAllocation().GetProcess().GetLimit() {
		_, err := cl.Allocations().Stop(launching, &bursarv1.StopRequest{Id: allocation.GetId(), Reason: "its launcher has asked for a limit, and it has none"})
		return errors.Join(client.ErrNoLimit, err)
	}
	err = c.Print(launched, func() {
		c.Printf("%s\n", launched.GetAllocation().GetId())
		c.Sayf("runs as process %d; its output goes to %s", launched.GetAllocation().GetProcess().GetPid(), launched.GetLogDirectory())
	})
	if err != nil {
		return fmt.Errorf("%w; the command runs: its allocation's id is %s", err, allocation.GetId())
	}
	return nil
}

// launchEnd gives the error of a Launch the exit code that the same command has without --detach.
func launchEnd(err error) error {
	field, ok := client.InvalidField(err)
	switch {
	case !ok || field.GetField() != "command[0]":
		return err
	case strings.Contains(field.GetWant(), "execute"), strings.Contains(field.GetWant(), "#!"):
		return &failure.ExitError{Code: failure.ExitNotExecutable, Err: err}
	}
	return &failure.ExitError{Code: failure.ExitNotFound, Err: err}
}

// giveBack releases the grant of a command that was not started. If nobody hears that, the grant
// expires by itself. If the command may have been started after all, giveBack stops it: an engine
// that runs must not be released.
func giveBack(ctx context.Context, c *failure.Reporter, cl *client.Client, id string, launch error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), servers.GiveUpTime)
	defer cancel()
	if client.Undecided(launch) {
		if _, err := cl.Allocations().Stop(ctx, &bursarv1.StopRequest{Id: id, Reason: "its launch failed"}); err != nil {
			c.Sayf("bursar: %s; the command may run: see bursar allocations %s", c.Message(err), id)
		}
		return
	}
	if _, err := cl.Allocations().Release(ctx, &bursarv1.ReleaseRequest{Id: id, Reason: "not started"}); err != nil {
		c.Sayf("bursar: %s; the reservation expires by itself", c.Message(err))
	}
}

// sayNormalized says in one line that a grant differs from the request.
func sayNormalized(out *render.Printer, a *bursarv1.Allocation) {
	asked, granted := proto.CloneOf(a.GetRequested()), proto.CloneOf(a.GetEntitled())
	if asked == nil || granted == nil {
		return
	}
	asked.External, granted.External = nil, nil // their names are completed, not their sizes
	if asked, granted := render.ResourceText(asked), render.ResourceText(granted); asked != granted {
		out.Sayf("bursar: granted %s for %s: a quota rounds requests", render.Printable(granted), render.Printable(asked))
	}
}

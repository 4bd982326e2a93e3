package allocations

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// confirmFlags describe the engine.
type confirmFlags struct {
	pid          int32
	cgroup       string
	address      string
	applications []string
	lease        time.Duration
	limit        bool
	entitled     cmdline.SizeFlags
}

func confirmCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "confirm [ID]",
		Short: "Say that the engine of a reservation runs",
		Long: `Confirm says that the engine of a reservation runs. With --pid it asks the agent
of this machine, which watches the process and gives everything back when it
ends. An engine without a pid here says by --address where it is, and lives by
its lease, which "bursar renew" extends. Or it says its --application, and lives
as long as its applications.

With --limit the agent has the kernel cap the engine, in a cgroup of its own,
before it answers, or it refuses. Without, the host's policy decides.

With resources it keeps only those from now on and gives back the rest. Say what
the engine is entitled to (a JVM's heap and overhead), not what it happens to
use now. Code 66 means that the reservation is gone: stop the engine. Code 65
means that the process of --pid cannot be the engine: it has ended, or the
allocation has another one. After any other code it is not known: confirm it
again.

An engine that runs can be confirmed again with --application, as soon as it
knows its application: that one is added. Within "bursar run" the id may be left
out.`,
		Example: `  bursar confirm 3f7k --pid 4711

  # give 1GiB of 4GiB back
  bursar confirm 3f7k --pid 4711 --memory 3GiB

  bursar confirm 3f7k --address worker-9:8080 --lease 5m
  bursar confirm 3f7k --application application_1700000000000_0042

  # in a script that "bursar run" runs
  bursar confirm --application application_1700000000000_0042`,
		Args:              cmdline.AtMost(1),
		ValidArgsFunction: lookup.CompleteOneAllocation(c),
	}
	var f confirmFlags
	flags := cmd.Flags()
	flags.Int32Var(&f.pid, "pid", 0, "the engine's process on this machine")
	flags.StringVar(&f.cgroup, "cgroup", "", "the engine's own cgroup below the cgroup mount")
	flags.StringVar(&f.address, "address", "", "where the engine can be reached")
	flags.Var(cmdline.NamesFlag{Names: &f.applications, What: "id"}, "application", "id of its application in an external cluster; repeatable")
	cmdline.AddDuration(flags, &f.lease, "lease", "", "without --pid: how long it lives without a renewal (24h if nothing else ends it)")
	flags.BoolVar(&f.limit, "limit", false, "with --pid: have the kernel cap the engine at what it is entitled to")
	cmdline.AddSizeFlags(cmd, &f.entitled)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flags.Changed("pid") && f.pid < 1 {
			return failure.Usagef("--pid %d: want %s", f.pid, cmdline.WantedPID)
		}
		req, err := f.request()
		if err != nil {
			return err
		}
		within := len(args) == 0 // a command of `bursar run`
		text := os.Getenv(client.EnvAllocationID)
		switch {
		case !within:
			text = args[0]
		case text == "":
			return failure.Usagef("no id: want one, but for a command that \"bursar run\" runs")
		}
		cl, err := confirmServer(c, cmd, within || f.pid != 0)
		if err != nil {
			return err
		}
		return confirmEnd(onAllocationAt(cmd.Context(), c.Printer, cl, text,
			func(ctx context.Context, cl *client.Client, id string) (*bursarv1.Allocation, error) {
				req.Id = id
				if f.addsToOne() {
					if req.Process, err = processOf(ctx, cl, id, within); err != nil {
						return nil, err
					}
				}
				res, err := cl.Allocations().Confirm(ctx, req)
				if client.Precondition(err) && isActive(ctx, cl, id) {
					return nil, &failure.ExitError{Code: failure.ExitData, Err: err} // its engine must not be stopped
				}
				return f.checkLimit(res.GetAllocation(), withoutWait(err))
			}))
	}
	return cmd
}

// checkLimit returns an error if the limit that was asked for is not there.
func (f *confirmFlags) checkLimit(a *bursarv1.Allocation, err error) (*bursarv1.Allocation, error) {
	if err == nil && f.limit && !a.GetProcess().GetLimit() {
		return nil, client.ErrNoLimit
	}
	return a, err
}

// confirmEnd gives the error of a Confirm its exit code. A script stops its engine at one of them,
// so no other error may have that one.
func confirmEnd(err error) error {
	if _, decided := errors.AsType[*failure.ExitError](err); decided || !client.Precondition(err) {
		return err
	}
	if field, ok := client.InvalidField(err); ok && strings.HasPrefix(field.GetField(), "process.") {
		return &failure.ExitError{Code: failure.ExitData, Err: err}
	}
	return &failure.ExitError{Code: failure.ExitNoSuchThing, Err: err}
}

// isActive reports whether an allocation has an engine.
func isActive(ctx context.Context, cl *client.Client, id string) bool {
	found, err := cl.Allocations().Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: id})
	return err == nil && found.GetAllocation().GetState() == bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE
}

func (f *confirmFlags) request() (*bursarv1.ConfirmRequest, error) {
	switch {
	case f.pid == 0 && f.address == "" && len(f.applications) == 0:
		return nil, failure.Usagef("nothing said about the engine: want --pid, --address or --application")
	case f.limit && f.pid == 0:
		return nil, failure.Usagef("--limit is for an engine with --pid: the kernel limits processes of this machine")
	case f.pid != 0 && f.lease != 0:
		return nil, failure.Usagef("--lease is for an engine without --pid")
	}
	if err := cmdline.WithinBounds("--lease", f.lease, &bursarv1.ConfirmRequest{}, "lease"); err != nil {
		return nil, err
	}
	req := &bursarv1.ConfirmRequest{Address: f.address, ApplicationIds: f.applications, Limit: f.limit}
	if f.pid != 0 {
		req.Process = &bursarv1.Process{Pid: f.pid, Cgroup: f.cgroup}
	}
	if f.lease != 0 {
		req.Lease = durationpb.New(f.lease)
	}
	if f.entitled.IsSet() {
		req.Entitled = f.entitled.Message()
	}
	return req, nil
}

// addsToOne reports whether only applications are given: they may be those of an engine that is
// confirmed already.
func (f *confirmFlags) addsToOne() bool {
	return f.pid == 0 && f.address == "" && f.lease == 0 && len(f.applications) > 0
}

// confirmSoon is the time in which `bursar run` confirms a command that it has started.
const confirmSoon = 30 * time.Second

// processOf is the process that an engine was confirmed with; nil if it has none. A command of
// `bursar run` may be quicker than run itself: then processOf waits for run to confirm it.
func processOf(ctx context.Context, cl *client.Client, id string, ofRun bool) (*bursarv1.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, confirmSoon)
	defer cancel()
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for {
		found, err := cl.Allocations().Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: id})
		if err != nil {
			return nil, err
		}
		a := found.GetAllocation()
		if !ofRun || a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED {
			if a.GetProcess().GetPid() == 0 {
				return nil, nil //nolint:nilnil // an engine without a process here
			}
			return a.GetProcess(), nil
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("allocation %s: \"bursar run\" has not confirmed its command: %w", id, ctx.Err())
		}
	}
}

// confirmServer is the agent if a process of this machine is confirmed, unless the user named the
// coordinator.
func confirmServer(c *servers.Connections, cmd *cobra.Command, process bool) (*client.Client, error) {
	if process && !cmd.Flags().Changed("addr") {
		return c.PatientAgent(cmd.Context(), servers.PresentPatience)
	}
	return c.Either(cmd)
}

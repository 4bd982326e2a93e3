package allocations

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func releaseCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release ID…",
		Short: "Give everything back",
		Long: `Release gives back what an allocation holds, once no process of its engine
lives. While one lives, the allocation is "releasing" and counts as before, until
the process ends. An engine that the agent started (run --detach) is stopped;
end any other one yourself, or use "bursar stop". --force gives everything back
at once, whatever runs: only an operator may, at a coordinator.

It is safe to do this twice, and an id that nobody knows is no error: it holds
nothing, and -o json prints null.

Of several ids each is tried, but nothing is done if one is the beginning of
several ids. The exit code is that of the first failure.`,
		Example: `  bursar release 3f7k
  bursar release 3f7k 9ab2 --reason "session closed"
  bursar release 3f7k --force --reason "its host is gone for good"`,
		Args:              cmdline.AtLeastOne,
		ValidArgsFunction: lookup.CompleteAllocations(c),
	}
	reason := cmd.Flags().String("reason", "", "why, for the history")
	force := cmd.Flags().Bool("force", false, "give it back although the engine may run: only for operators")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cl, err := c.Either(cmd)
		if err != nil {
			return err
		}
		unknown := make(map[string]error) // by what was typed
		resolve := func(text string) (string, error) {
			id, err := lookup.AllocationID(cmd.Context(), cl, text)
			if _, missing := errors.AsType[*failure.NoSuchError](err); missing {
				unknown[text] = err
				return text, nil
			}
			return id, err
		}
		return c.EachID(args, resolve, func(id string) error {
			err := unknown[id]
			if err == nil {
				err = onAllocationID(cmd.Context(), c.Printer, cl, id, func(ctx context.Context, cl *client.Client, id string) (*bursarv1.Allocation, error) {
					res, err := cl.Allocations().Release(ctx, &bursarv1.ReleaseRequest{Id: id, Reason: *reason, Force: *force})
					tellReleasing(c.Printer, res.GetAllocation())
					return res.GetAllocation(), err
				})
			}
			if missing, ok := errors.AsType[*failure.NoSuchError](err); ok {
				c.Sayf("%s: nothing is given back", missing)
				if c.IsJSON() {
					return c.PrintJSON([]byte("null"))
				}
				return nil
			}
			return err
		})
	}
	return cmd
}

// tellReleasing says why an allocation that was released counts as before.
func tellReleasing(out *render.Printer, a *bursarv1.Allocation) {
	switch {
	case !a.GetReleasing():
	case a.GetStopping():
		out.Sayf("%s: its engine runs (pid %d on host %s) and is being stopped: the allocation ends with it", a.GetId(), a.GetProcess().GetPid(), a.GetHostId())
	default:
		out.Sayf("%s: its engine runs (pid %d on host %s): the allocation counts until it has ended; bursar stop %s ends it",
			a.GetId(), a.GetProcess().GetPid(), a.GetHostId(), a.GetId())
	}
}

func resizeCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resize ID",
		Short: "Change what an allocation is entitled to",
		Long: `Resize changes what an allocation is entitled to. A dimension that is not named
stays as it is, and so does a part in a queue of another cluster. More of
something is checked like a new request. While its engine runs, only an operator
may lower --instances and --custom: nothing shows that the engine gave them
back. --external changes a part that is there; it cannot add one. A request that
waits is changed by "bursar amend".

A size below what the engine uses is not refused. Resize then says what the
engine's host does about that.`,
		Example: `  bursar resize 3f7k --memory 6GiB
  bursar resize 3f7k --cpu 1 --memory 2GiB
  bursar resize 3f7k --external yarn:prod:root.a,memory=128GiB`,
		Args:              cmdline.ExactlyOne(),
		ValidArgsFunction: lookup.CompleteOneAllocation(c),
	}
	var entitled cmdline.SizeFlags
	cmdline.AddSizeFlags(cmd, &entitled)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !entitled.IsSet() {
			return failure.Usagef("no new size: want at least one of --memory, --cpu, --instances, --custom and --external")
		}
		if err := entitled.MoreThanNothing(); err != nil {
			return err
		}
		return onAllocation(c, cmd, args[0], func(ctx context.Context, cl *client.Client, id string) (*bursarv1.Allocation, error) {
			res, err := cl.Allocations().Resize(ctx, &bursarv1.ResizeRequest{Id: id, Entitled: entitled.Message()})
			if err == nil {
				sayExceeded(c.Printer, res.GetAllocation(), time.Now())
			}
			return res.GetAllocation(), withoutWait(err)
		})
	}
	return cmd
}

package allocations

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/requests"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func allocateCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "allocate",
		Short: "Reserve resources for an engine that you start yourself",
		Long: `Allocate reserves resources and prints the id of the allocation. Start the
engine on the chosen host, then run "bursar confirm" there. If nobody confirms
it, the reservation expires. Without --host bursar chooses the best host.

"bursar run" does all of this for a command on this machine.`,
		Example: `  # reserve, start, confirm, and give back
  id=$(bursar allocate --memory 4GiB --cpu 2 --wait 30s \
    --label user=alice --label engineType=spark-3.3)
  spark-submit … & bursar confirm $id --pid $!
  wait; bursar release $id

  # on a host with a GPU in zone a, but not on vm-7; print all of the decision
  bursar allocate -m 16GiB --custom gpu=1 -l user=alice --require zone=a \
    --avoid vm-7 -o json

  # a driver here and its executors in a queue of a YARN cluster
  bursar allocate -m 4GiB -c 1 -l user=alice --wait 5m \
    --external yarn:prod:root.a,memory=64GiB,cpu=16

  # get in line and look again later
  bursar allocate -m 4GiB -l user=alice --wait 1h --async`,
		Args: cmdline.NoArguments,
	}
	f := requests.AddFlags(cmd)
	requests.AddNameFlag(cmd, f)
	requests.AddPlaceFlags(cmd, f)
	async := cmd.Flags().Bool("async", false, "do not wait here: print the id of the request that waits")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		req, err := f.Request()
		if err != nil {
			return err
		}
		c.Warn(f.Doubts())
		req.Async = *async
		cl, err := c.Either(cmd)
		if err != nil {
			return err
		}
		c.Warn(f.PlaceDoubts(cmd.Context(), cl))
		allocation, err := requests.Allocate(cmd.Context(), c.Reporter, cl, req)
		if err != nil {
			return err
		}
		if err := c.Print(&bursarv1.AllocateResponse{Allocation: allocation}, func() { printGrant(c.Printer, allocation) }); err != nil {
			return fmt.Errorf("%w; the allocation is there: its id is %s", err, allocation.GetId())
		}
		return nil
	}
	return cmd
}

// printGrant prints the id for scripts, and the next steps for people.
func printGrant(out *render.Printer, a *bursarv1.Allocation) {
	out.Printf("%s\n", a.GetId())
	if a.GetState() == bursarv1.AllocationState_ALLOCATION_STATE_WAITING {
		out.Sayf("%s; until %s; bursar explain %s says more", cmp.Or(a.GetReason(), "waits"), render.TimeText(a.GetExpireTime()), a.GetId())
		return
	}
	engine := "--pid PID"
	if len(a.GetEntitled().GetExternal()) > 0 {
		engine += " --application ID"
	}
	out.Sayf("%s %s on host %s until %s; next: bursar confirm %s %s",
		render.AllocationState(a.GetState()), render.ResourceText(a.GetEntitled()), a.GetHostId(), render.TimeText(a.GetExpireTime()), a.GetId(), engine)
}

func cancelCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel ID…",
		Short: "End a request that waits, or a reservation",
		Long: `Cancel ends a request that waits, or a reservation that is not confirmed. It
does not touch engines that run: see stop and release.

Of several ids each is tried, but nothing is done if one is the beginning of no
id or of several. The exit code is that of the first failure.`,
		Example: `  bursar cancel 3f7k
  bursar cancel my-request-id --reason "not needed any more"`,
		Args:              cmdline.AtLeastOne,
		ValidArgsFunction: lookup.CompleteAllocations(c),
	}
	reason := cmd.Flags().String("reason", "", "why, for the history")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return onEachAllocation(c, cmd, args, func(ctx context.Context, cl *client.Client, id string) (*bursarv1.Allocation, error) {
			res, err := cl.Allocations().Cancel(ctx, &bursarv1.CancelRequest{Id: id, Reason: *reason})
			return res.GetAllocation(), err
		})
	}
	return cmd
}

func renewCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "renew ID…",
		Short: "Extend a reservation or a lease",
		Long: `Renew extends a reservation. It also extends the lease of an engine that runs
without a pid on its host.

Of several ids each is tried, but nothing is done if one is the beginning of no
id or of several. The exit code is that of the first failure.`,
		Example: `  bursar renew 3f7k
  bursar renew 3f7k --ttl 10m`,
		Args:              cmdline.AtLeastOne,
		ValidArgsFunction: lookup.CompleteAllocations(c),
	}
	ttl := new(time.Duration)
	cmd.Flags().Var(cmdline.TTLFlag{DurationFlag: cmdline.DurationFlag{Value: ttl}}, "ttl", "from now on (default: as long as at first)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cmdline.WithinBounds("--ttl", *ttl, &bursarv1.RenewRequest{}, "ttl"); err != nil {
			return err
		}
		return onEachAllocation(c, cmd, args, func(ctx context.Context, cl *client.Client, id string) (*bursarv1.Allocation, error) {
			req := &bursarv1.RenewRequest{Id: id}
			if *ttl != 0 {
				req.Ttl = durationpb.New(*ttl)
			}
			res, err := cl.Allocations().Renew(ctx, req)
			return res.GetAllocation(), err
		})
	}
	return cmd
}

// onAllocation changes the allocation that a text names, and prints the result.
func onAllocation(
	c *servers.Connections, cmd *cobra.Command, text string, do func(context.Context, *client.Client, string) (*bursarv1.Allocation, error),
) error {
	cl, err := c.Either(cmd)
	if err != nil {
		return err
	}
	return onAllocationAt(cmd.Context(), c.Printer, cl, text, do)
}

// onEachAllocation changes each of the allocations that texts name, and prints each.
func onEachAllocation(
	c *servers.Connections, cmd *cobra.Command, texts []string, do func(context.Context, *client.Client, string) (*bursarv1.Allocation, error),
) error {
	cl, err := c.Either(cmd)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	return c.EachID(texts, lookup.AllocationIDs(ctx, cl), func(id string) error { return onAllocationID(ctx, c.Printer, cl, id, do) })
}

func onAllocationAt(
	ctx context.Context, out *render.Printer, cl *client.Client, text string, do func(context.Context, *client.Client, string) (*bursarv1.Allocation, error),
) error {
	id, err := lookup.AllocationID(ctx, cl, text)
	if err != nil {
		return err
	}
	return onAllocationID(ctx, out, cl, id, do)
}

func onAllocationID(
	ctx context.Context, out *render.Printer, cl *client.Client, id string, do func(context.Context, *client.Client, string) (*bursarv1.Allocation, error),
) error {
	allocation, err := do(ctx, cl, id)
	if err != nil {
		return err
	}
	if allocation == nil {
		return &failure.NoSuchError{What: "allocation", ID: id}
	}
	return render.PrintAllocationLine(out, allocation)
}

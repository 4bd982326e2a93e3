package engines

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
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// stopFlags name the engines to stop, and how to stop them.
type stopFlags struct {
	labels      cmdline.FilterFlag
	mine        bool
	grace, wait time.Duration
	reason      string
	yes, dryRun bool
}

func stopCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stop ID… | -l KEY=VALUE",
		Short: "Ask the host's agent to end an engine",
		Long: `Stop asks the agent of the engine's host to end the engine: first with SIGTERM,
and after the grace with SIGKILL. When the engine has ended, everything it held
is given back. Until then it is shown as stopping; --wait waits for that. A
request that waits is canceled.

With --label or --mine it is about all that wait, are reserved or run with these
labels. It prints them, and stops them only with --yes.

On an engine host it asks the host's agent, if you name no server: see
"bursar help environment".

Of several each is tried, but nothing is done if one is the beginning of no id
or of several. The exit code is that of the first failure, and 1 if one has not
ended when --wait is over.`,
		Example: `  bursar stop 3f7k
  bursar stop 3f7k 9ab2 --wait 1m
  bursar stop 3f7k --grace 1m --reason "host maintenance"

  # all of a user's: look first
  bursar stop -l user=alice --dry-run
  bursar stop -l user=alice --yes`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: lookup.CompleteAllocations(c),
	}
	f := stopFlags{labels: cmdline.FilterFlag{}, grace: 10 * time.Second}
	flags := cmd.Flags()
	flags.VarP(f.labels, "label", "l", "all with this label, * for any value; repeatable")
	flags.BoolVar(&f.mine, "mine", false, "all your own: with your name as the label user")
	flags.BoolVar(&f.yes, "yes", false, "with --label or --mine: stop them")
	flags.BoolVar(&f.dryRun, "dry-run", false, "stop nothing: print what would be stopped")
	cmdline.AddDuration(flags, &f.wait, "wait", "w", "how long to wait until they have ended, such as 1m")
	cmdline.AddDuration(flags, &f.grace, "grace", "", "time between SIGTERM and SIGKILL")
	flags.StringVar(&f.reason, "reason", "", "why, for the history")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(args); err != nil {
			return err
		}
		cl, err := lookup.Nearest(c, cmd, args)
		if err != nil {
			return err
		}
		if f.many() {
			return stopLabelled(cmd.Context(), c.Reporter, cl, &f)
		}
		return stopEach(cmd.Context(), c.Reporter, cl, args, &f)
	}
	return cmd
}

// many reports whether the engines are named by a common property.
func (f *stopFlags) many() bool { return len(f.labels) > 0 || f.mine }

// common is this property, in words.
func (f *stopFlags) common() string {
	text := render.LabelsText(f.labels)
	switch {
	case !f.mine:
		return text
	case text == "":
		return "your user"
	}
	return "your user, " + text
}

func (f *stopFlags) check(args []string) error {
	switch {
	case len(args) == 0 && !f.many():
		return failure.Usagef("nothing named: want at least one ID, or --label, or --mine")
	case len(args) > 0 && f.many():
		return failure.Usagef("ids and --label or --mine: want one of them")
	case f.yes && !f.many():
		return failure.Usagef("--yes is for --label and --mine")
	case f.yes && f.dryRun:
		return failure.Usagef("--yes and --dry-run: want one of them")
	case f.wait < 0:
		return failure.Usagef("--wait %s: want a duration that is not negative", cmdline.Hours(f.wait))
	}
	return cmdline.WithinBounds("--grace", f.grace, &bursarv1.StopRequest{}, "grace")
}

// stopLabelled stops all that live with labels. It prints them first.
func stopLabelled(ctx context.Context, c *failure.Reporter, cl *client.Client, f *stopFlags) error {
	live := lookup.Filter{Labels: f.labels, Mine: f.mine}
	found, _, err := live.List(ctx, cl)
	if err != nil {
		return err
	}
	var ids []string
	for _, a := range found.GetAllocations() {
		ids = append(ids, a.GetId())
	}
	switch {
	case len(ids) == 0:
		c.Sayf("nothing lives with %s", f.common())
		return nil
	case !f.yes:
		if err := printEach(c.Printer, found); err != nil || f.dryRun {
			return err
		}
		return failure.Usagef("%s with %s: nothing was stopped: want --yes to stop them", render.Counted(len(ids), "allocation", "allocations"), f.common())
	}
	return stopEach(ctx, c, cl, ids, f)
}

// printEach prints a table, or each by itself as JSON, as the stop that follows would.
func printEach(out *render.Printer, found *bursarv1.AllocationServiceListResponse) error {
	if !out.IsJSON() {
		return out.Print(found, func() { render.PrintAllocations(out, found.GetAllocations(), "") })
	}
	for _, a := range found.GetAllocations() {
		if err := render.PrintAllocationLine(out, a); err != nil {
			return err
		}
	}
	return nil
}

// stop asks for the end of each, and then waits for the ends.
func stopEach(ctx context.Context, c *failure.Reporter, cl *client.Client, texts []string, f *stopFlags) error {
	var asked []string
	failed := c.EachID(texts, lookup.AllocationIDs(ctx, cl), func(id string) error {
		a, err := f.stop(ctx, cl, id)
		if err != nil {
			return err
		}
		render.SayTriedAgain(c.Printer, id, a)
		if f.wait > 0 && !f.dryRun && !render.HasEnded(a) {
			asked = append(asked, cmp.Or(a.GetId(), id))
			if c.IsJSON() {
				return nil // its end is printed
			}
		}
		return render.PrintAllocationLine(c.Printer, a)
	})
	if len(asked) == 0 {
		return failed
	}
	ctx, cancel := context.WithTimeout(ctx, f.wait)
	defer cancel()
	late := c.Each(asked, func(id string) error { return awaitEnd(ctx, c.Printer, cl, id, f.wait) })
	return cmp.Or(failed, late)
}

// stop asks for the end of one. With --dry-run it only reads that. One that was found by its labels
// may have ended since, which is fine.
func (f *stopFlags) stop(ctx context.Context, cl *client.Client, id string) (*bursarv1.Allocation, error) {
	read := func() (*bursarv1.Allocation, error) { return lookup.LastTry(ctx, cl, id) }
	if f.dryRun {
		return read()
	}
	res, err := cl.Allocations().Stop(ctx, &bursarv1.StopRequest{Id: id, Grace: durationpb.New(f.grace), Reason: f.reason})
	if client.Precondition(err) && f.many() {
		if a, _ := read(); render.HasEnded(a) {
			return a, nil
		}
	}
	return res.GetAllocation(), err
}

// awaitEnd waits until an allocation has ended, and prints how it did.
func awaitEnd(ctx context.Context, out *render.Printer, cl *client.Client, id string, most time.Duration) error {
	var last *bursarv1.Allocation
	err := cmdline.WaitFor(ctx, func() (bool, error) {
		res, err := cl.Allocations().Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: id})
		last = res.GetAllocation()
		return render.HasEnded(last), err
	})
	switch {
	case err == nil:
		return render.PrintAllocationLine(out, last)
	case ctx.Err() != nil:
		return fmt.Errorf("allocation %s has not ended within %s", id, cmdline.Hours(most))
	}
	return err
}

package allocations

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func allocationsCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "allocations [ID]",
		Short: "Who holds or waits for what, next to what is used",
		Long: `Allocations shows who holds what: what each engine is entitled to, next to what
its whole process tree really uses. With an id it shows all about one
allocation, live or ended. It says on stderr which server it asks, if you name
none: on an engine host that is the host's agent, about this host alone.

With --since or --until it shows those that ended in that time, the latest
first. Each takes a time in this machine's zone, as tables have it, a day, or
how long ago that was.

Of an engine that was started from elsewhere (bursar submit, bursar run
--remote) an id shows the program, the folder with its output on its host, and
each try that failed. The phase says whether it is ready: starting, ready, or
failed with the reason. An engine that says nothing about that has no phase.

An engine that uses more than it is entitled to is marked. The mark says how
much more it used when this was noticed, and what its host does about it.`,
		Example: `  bursar allocations
  bursar allocations --label user=alice --label 'engineType=*'
  bursar allocations --mine --state waiting
  bursar allocations --name sweep --phase starting
  bursar allocations --ended --limit 20
  bursar allocations --since 2h
  bursar allocations --since '2027-01-31 08:00:00' --until 2027-02-01
  bursar allocations 3f7k
  bursar allocations -o json | jq -r '.allocations[].id'`,
		Args:              cmdline.AtMost(1),
		ValidArgsFunction: lookup.CompleteOneAllocation(c),
	}
	f := lookup.Filter{Labels: cmdline.FilterFlag{}}
	flags := cmd.Flags()
	flags.VarP(f.Labels, "label", "l", "only with this label, * for any value; repeatable")
	flags.BoolVar(&f.Mine, "mine", false, "only your own: with your name as the label user")
	flags.Var(cmdline.HostFlag{ID: &f.Host}, "host", "only on this host")
	flags.StringSliceVar(&f.States, "state", nil, "only in this state: waiting, reserved, active, …; repeatable")
	flags.StringSliceVar(&f.Phases, "phase", nil, "only engines in this phase: starting, ready or failed; repeatable")
	flags.Var(cmdline.NameFlag{Name: &f.Name}, "name", "only those with this name, as --name of run, submit and allocate gives it")
	flags.BoolVar(&f.Ended, "ended", false, "also those that have ended, newest first")
	flags.Var(&f.Since, "since", "that ended at this time or later: 2027-01-31, '2027-01-31 08:00:00', or 2h for 2 hours ago")
	flags.Var(&f.Until, "until", "that ended before this time")
	flags.IntVar(&f.Limit, "limit", 0, "at most this many (default: all that live; 100 of those that have ended)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flag := f.Timed(); flag != "" && len(args) > 0 {
			return failure.Usagef("%s: means nothing next to an ID: want one of them", flag)
		}
		if f.Mine && len(args) > 0 {
			return failure.Usagef("--mine: means nothing next to an ID: want one of them")
		}
		cl, err := lookup.Nearest(c, cmd, args)
		if err != nil {
			return err
		}
		if len(args) == 1 {
			return showOne(cmd.Context(), c, cl, args[0])
		}
		all, more, err := f.List(cmd.Context(), cl)
		if err != nil {
			return err
		}
		if more {
			return printSome(c.Printer, all, f)
		}
		return c.Print(all, func() { render.PrintAllocations(c.Printer, all.GetAllocations(), f.Text()) })
	}
	return cmd
}

// showOne prints one allocation, and the try that runs if its engine was tried again.
func showOne(ctx context.Context, c *servers.Connections, cl *client.Client, text string) error {
	id, err := lookup.AllocationID(ctx, cl, text)
	if err != nil {
		return err
	}
	res, err := cl.Allocations().Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: id})
	if err != nil {
		return err
	}
	a := res.GetAllocation()
	if err := c.Print(a, func() { render.PrintAllocation(c.Printer, a) }); err != nil || a.GetLaunch().GetSuccessorId() == "" {
		return err
	}
	last, err := lookup.LastTry(ctx, cl, id)
	if err != nil {
		return err
	}
	render.SayTriedAgain(c.Printer, id, last)
	return nil
}

// printSome prints a list that is cut off: there are more.
func printSome(out *render.Printer, some *bursarv1.AllocationServiceListResponse, f lookup.Filter) error {
	if out.IsJSON() {
		text, err := render.JSONText(some)
		if err != nil {
			return err
		}
		return out.PrintJSON(render.WithField(text, "more", []byte("true")))
	}
	render.PrintAllocations(out, some.GetAllocations(), f.Text())
	which := "first"
	if f.Ended || f.Timed() != "" {
		which = "latest"
	}
	out.Sayf("the %s %d; --limit N shows more", which, len(some.GetAllocations()))
	return out.Lost()
}

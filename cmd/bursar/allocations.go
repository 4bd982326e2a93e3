package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
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
allocation, live or ended. With --agent it asks the agent of this host, about
this host.

With --since or --until it shows those that ended in that time, the latest
first. Each takes a time in this machine's zone, as tables have it, a day, or
how long ago that was.

An engine that uses more than it is entitled to is marked. The mark says how
much more it used when this was noticed, and what its host does about it.`,
		Example: `  bursar allocations
  bursar allocations --label user=alice --label 'engineType=*'
  bursar allocations --state waiting
  bursar allocations --ended --limit 20
  bursar allocations --since 2h
  bursar allocations --since '2027-01-31 08:00:00' --until 2027-02-01
  bursar allocations 3f7k
  bursar allocations -o json | jq -r '.allocations[].id'`,
		Args:              cmdline.AtMost(1),
		ValidArgsFunction: completeOneAllocation(c),
	}
	f := listFlags{labels: cmdline.FilterFlag{}}
	flags := cmd.Flags()
	flags.VarP(f.labels, "label", "l", "only with this label, * for any value; repeatable")
	flags.Var(cmdline.HostFlag{ID: &f.host}, "host", "only on this host")
	flags.StringSliceVar(&f.states, "state", nil, "only in this state: waiting, reserved, active, …; repeatable")
	flags.BoolVar(&f.ended, "ended", false, "also those that have ended, newest first")
	flags.Var(&f.since, "since", "that ended at this time or later: 2027-01-31, '2027-01-31 08:00:00', or 2h for 2 hours ago")
	flags.Var(&f.until, "until", "that ended before this time")
	flags.IntVar(&f.limit, "limit", 0, "at most this many (default: all that live; 100 of those that have ended)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flag := f.timed(); flag != "" && len(args) > 0 {
			return failure.Usagef("%s: means nothing next to an ID: want one of them", flag)
		}
		cl, err := c.Either(cmd)
		if err != nil {
			return err
		}
		if len(args) == 1 {
			id, err := allocationID(cmd.Context(), cl, args[0])
			if err != nil {
				return err
			}
			res, err := cl.Allocations().Get(cmd.Context(), &bursarv1.AllocationServiceGetRequest{Id: id})
			if err != nil {
				return err
			}
			return c.Print(res.GetAllocation(), func() { render.PrintAllocation(c.Printer, res.GetAllocation()) })
		}
		all, more, err := f.list(cmd.Context(), cl)
		if err != nil {
			return err
		}
		if more {
			return printSome(c.Printer, all, f)
		}
		return c.Print(all, func() { render.PrintAllocations(c.Printer, all.GetAllocations(), f.text()) })
	}
	return cmd
}

// printSome prints a list that is cut off: there are more.
func printSome(out *render.Printer, some *bursarv1.AllocationServiceListResponse, f listFlags) error {
	if out.IsJSON() {
		text, err := render.JSONText(some)
		if err != nil {
			return err
		}
		return out.PrintJSON(render.WithField(text, "more", []byte("true")))
	}
	render.PrintAllocations(out, some.GetAllocations(), f.text())
	which := "first"
	if f.ended || f.timed() != "" {
		which = "latest"
	}
	out.Sayf("the %s %d; --limit N shows more", which, len(some.GetAllocations()))
	return out.Lost()
}

// listFlags select allocations.
type listFlags struct {
	labels cmdline.FilterFlag
	host   string
	states []string
	ended  bool
	since  cmdline.TimeFlag
	until  cmdline.TimeFlag
	limit  int
}

// text is the filter as it was typed; empty without any.
func (f *listFlags) text() string {
	return cmdline.FiltersOf(f.labels.Text(), cmdline.FilterText("--host", f.host), cmdline.FilterText("--state", f.states...), cmdline.FilterText("--since", f.since.Text), cmdline.FilterText("--until", f.until.Text))
}

// maxPage is the largest page that the contract allows.
const maxPage = 1000

// timed is the flag that asks for what has ended in a time; empty if none does.
func (f *listFlags) timed() string {
	switch {
	case f.since.Text != "":
		return "--since"
	case f.until.Text != "":
		return "--until"
	}
	return ""
}

// list asks for all pages, up to the limit. It reports whether there are more.
func (f *listFlags) list(ctx context.Context, cl *client.Client) (all *bursarv1.AllocationServiceListResponse, more bool, err error) {
	most := f.limit
	if most == 0 && (f.ended || f.timed() != "") {
		most = 100
	}
	if f.until.Text != "" && !f.until.Time.After(f.since.Time) {
		return nil, false, failure.Usagef("--until %q: want a time after --since %q", f.until.Text, f.since.Text)
	}
	if most < 0 {
		return nil, false, failure.Usagef("--limit %d: want a number that is not negative", f.limit)
	}
	req := &bursarv1.AllocationServiceListRequest{Labels: f.labels, HostId: f.host, Ended: f.ended, PageSize: maxPage, EndedSince: f.since.Message(), EndedBefore: f.until.Message()}
	if most > 0 {
		req.PageSize = int32(min(most, maxPage-1) + 1) // one more shows whether there are more
	}
	for _, name := range f.states {
		state, known := bursarv1.AllocationState_value["ALLOCATION_STATE_"+strings.ToUpper(name)]
		if !known || state == 0 {
			return nil, false, failure.Usagef("--state %q: want %s", name, strings.Join(stateNames(), ", "))
		}
		if flag := f.timed(); flag != "" && lives(bursarv1.AllocationState(state)) {
			return nil, false, failure.Usagef("--state %q: has not ended, and %s shows what has: want released, expired, canceled or lost", name, flag)
		}
		req.States = append(req.States, bursarv1.AllocationState(state))
	}
	all = &bursarv1.AllocationServiceListResponse{}
	for page, err := range cl.ListAllocations(ctx, req) {
		if err != nil {
			return nil, false, err
		}
		all.Allocations = append(all.Allocations, page.GetAllocations()...)
		all.Revision = page.GetRevision()
		if most > 0 && len(all.GetAllocations()) > most {
			all.Allocations = all.Allocations[:most]
			return all, true, nil
		}
	}
	return all, false, nil
}

// lives reports whether an allocation in a state has not ended.
func lives(state bursarv1.AllocationState) bool {
	switch state {
	case bursarv1.AllocationState_ALLOCATION_STATE_WAITING, bursarv1.AllocationState_ALLOCATION_STATE_RESERVED,
		bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE:
		return true
	default:
		return false
	}
}

// stateNames lists the states of allocations as they are typed.
func stateNames() []string {
	var names []string
	for n := 1; n < len(bursarv1.AllocationState_name); n++ {
		names = append(names, render.AllocationState(bursarv1.AllocationState(n)))
	}
	return names
}

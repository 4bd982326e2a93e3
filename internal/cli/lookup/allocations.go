package lookup

import (
	"context"
	"maps"
	"os/user"
	"strings"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Filter select allocations.
type Filter struct {
	Labels cmdline.FilterFlag
	Mine   bool
	Host   string
	States []string
	Phases []string
	Name   string
	Ended  bool
	Since  cmdline.TimeFlag
	Until  cmdline.TimeFlag
	Limit  int
}

// Text is the filter as it was typed; empty without any.
func (f *Filter) Text() string {
	mine := ""
	if f.Mine {
		mine = "--mine"
	}
	return cmdline.FiltersOf(f.Labels.Text(), mine, cmdline.FilterText("--host", f.Host), cmdline.FilterText("--state", f.States...), cmdline.FilterText("--phase", f.Phases...), cmdline.FilterText("--name", f.Name), cmdline.FilterText("--since", f.Since.Text), cmdline.FilterText("--until", f.Until.Text))
}

// MaxPage is the largest page that the contract allows.
const MaxPage = 1000

// Timed is the flag that asks for the allocations that ended in a time; empty if none does.
func (f *Filter) Timed() string {
	switch {
	case f.Since.Text != "":
		return "--since"
	case f.Until.Text != "":
		return "--until"
	}
	return ""
}

// List asks for all pages, up to the limit. It reports whether there are more.
func (f *Filter) List(ctx context.Context, cl *client.Client) (all *bursarv1.AllocationServiceListResponse, more bool, err error) {
	most := f.Limit
	if most == 0 && (f.Ended || f.Timed() != "") {
		most = 100
	}
	if f.Until.Text != "" && !f.Until.Time.After(f.Since.Time) {
		return nil, false, failure.Usagef("--until %q: want a time after --since %q", f.Until.Text, f.Since.Text)
	}
	if most < 0 {
		return nil, false, failure.Usagef("--limit %d: want a number that is not negative", f.Limit)
	}
	labels := maps.Clone(f.Labels)
	if f.Mine {
		if labels, err = OwnLabels(ctx, cl, f.Labels); err != nil {
			return nil, false, err
		}
	}
	req := &bursarv1.AllocationServiceListRequest{Labels: labels, HostId: f.Host, Ended: f.Ended, PageSize: MaxPage, EndedSince: f.Since.Message(), EndedBefore: f.Until.Message(), Name: f.Name}
	if most > 0 {
		req.PageSize = int32(min(most, MaxPage-1) + 1) // one more shows whether there are more
	}
	for _, name := range f.States {
		state, known := bursarv1.AllocationState_value["ALLOCATION_STATE_"+strings.ToUpper(name)]
		if !known || state == 0 {
			return nil, false, failure.Usagef("--state %q: want %s", name, strings.Join(stateNames(), ", "))
		}
		if flag := f.Timed(); flag != "" && lives(bursarv1.AllocationState(state)) {
			return nil, false, failure.Usagef("--state %q: has not ended, and %s shows what has: want released, expired, canceled or lost", name, flag)
		}
		req.States = append(req.States, bursarv1.AllocationState(state))
	}
	if req.Phases, err = f.phases(); err != nil {
		return nil, false, err
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

// OwnLabels are the labels of a filter, with that of the caller's own user: the one that the server
// knows the caller as. If the server lets the caller act as anybody, it is the one of this process.
func OwnLabels(ctx context.Context, cl *client.Client, labels cmdline.FilterFlag) (cmdline.FilterFlag, error) {
	if of, named := labels["user"]; named {
		return nil, failure.Usagef("--mine and --label user=%s: want one of them", of)
	}
	page, err := cl.Allocations().List(ctx, &bursarv1.AllocationServiceListRequest{Mine: true, PageSize: 1})
	if err != nil {
		return nil, err
	}
	own := cmdline.FilterFlag{}
	maps.Copy(own, labels)
	if users := page.GetUsers(); len(users) > 0 {
		own["user"] = users[0]
		return own, nil
	}
	me, err := user.Current()
	if err != nil {
		return nil, failure.Usagef("--mine: %w: want --label user=NAME", err)
	}
	own["user"] = me.Username
	return own, nil
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

// phases are those of the filter.
func (f *Filter) phases() (phases []bursarv1.Phase, err error) {
	for _, name := range f.Phases {
		phase, known := bursarv1.Phase_value["PHASE_"+strings.ToUpper(name)]
		if !known || phase == 0 {
			return nil, failure.Usagef("--phase %q: want %s", name, strings.Join(phaseNames(), ", "))
		}
		phases = append(phases, bursarv1.Phase(phase))
	}
	return phases, nil
}

// phaseNames lists the phases of engines as they are typed.
func phaseNames() []string {
	var names []string
	for n := 1; n < len(bursarv1.Phase_name); n++ {
		names = append(names, render.Phase(bursarv1.Phase(n)))
	}
	return names
}

// stateNames lists the states of allocations as they are typed.
func stateNames() []string {
	var names []string
	for n := 1; n < len(bursarv1.AllocationState_name); n++ {
		names = append(names, render.AllocationState(bursarv1.AllocationState(n)))
	}
	return names
}

//go:build linux

package ha

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sync/errgroup"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// everything lists all pages.
func everything(ctx context.Context, from *client.Client, request *bursarv1.AllocationServiceListRequest) (list []*bursarv1.Allocation, err error) {
	request.PageSize = 1000
	for page, err := range from.ListAllocations(ctx, request) {
		if err != nil {
			return nil, err
		}
		list = append(list, page.GetAllocations()...)
	}
	return list, nil
}

// check stops the load and compares all that anybody knows: the clients' book, the leader's ledger,
// and the agents.
func (l *load) check() {
	l.t.Helper()
	l.steps.Lock()
	defer l.steps.Unlock()
	if l.t.Failed() {
		return
	}
	eventually(l.t, "the ledger is what the clients were told, and what the agents hold", l.agrees)
	l.audited()
	if err := l.explained(); err != nil {
		l.t.Error(err)
	}
	l.book.removeEnded()
}

// agrees compares what lives.
func (l *load) agrees() error {
	live, err := everything(l.t.Context(), l.admin, &bursarv1.AllocationServiceListRequest{})
	if err != nil {
		return err
	}
	byHost, known := map[string][]string{}, map[string]bool{}
	told := l.book.open()
	var wrong error
	for _, a := range live {
		e, found := told[a.GetId()]
		known[a.GetId()] = true
		switch {
		case !found && l.book.late(a):
			if _, err := l.admin.Allocations().Release(l.t.Context(), &bursarv1.ReleaseRequest{Id: a.GetId(), Reason: "late"}); err != nil {
				return err
			}
			wrong = errors.Join(wrong, fmt.Errorf("allocation %s came late", a.GetId()))
		case !found:
			wrong = errors.Join(wrong, fmt.Errorf("no caller got %v", a))
		case !slices.Contains(e.may, a.GetState()):
			wrong = errors.Join(wrong, fmt.Errorf("allocation %s is %s (%s), want %v", a.GetId(), a.GetState(), a.GetReason(), e.may))
		}
		byHost[a.GetHostId()] = append(byHost[a.GetHostId()], fmt.Sprintf("%s %s", a.GetId(), a.GetState()))
	}
	for id, e := range told {
		if e.live() && !known[id] {
			wrong = errors.Join(wrong, fmt.Errorf("allocation %s of %s is lost, want %v", id, e.requestID, e.may))
		}
	}
	return errors.Join(wrong, l.agentsAgree(byHost))
}

// agentsAgree compares what each agent holds with what the ledger has for its host.
func (l *load) agentsAgree(byHost map[string][]string) error {
	var mu sync.Mutex
	var wrong error
	var group errgroup.Group
	group.SetLimit(8)
	for _, h := range l.hosts {
		group.Go(func() error {
			held, err := everything(l.t.Context(), h.local, &bursarv1.AllocationServiceListRequest{})
			var list []string
			for _, a := range held {
				list = append(list, fmt.Sprintf("%s %s", a.GetId(), a.GetState()))
			}
			mu.Lock()
			defer mu.Unlock()
			want := byHost[h.id]
			slices.Sort(want)
			slices.Sort(list)
			if err == nil && !slices.Equal(list, want) {
				err = fmt.Errorf("%s holds %v, the ledger has %v", h.id, list, want)
			}
			wrong = errors.Join(wrong, err)
			return nil
		})
	}
	_ = group.Wait() // its functions return nothing
	return wrong
}

// explained reads every allocation that was acknowledged since the last check: its later
// operations must explain its state.
func (l *load) explained() error {
	var group errgroup.Group
	group.SetLimit(8)
	for id, e := range l.book.open() {
		group.Go(func() error {
			res, err := l.admin.Allocations().Get(l.t.Context(), &bursarv1.AllocationServiceGetRequest{Id: id})
			if err != nil {
				return fmt.Errorf("acknowledged allocation %s: %w", id, err)
			}
			a := res.GetAllocation()
			if a.GetRequestId() != e.requestID || !slices.Contains(e.may, a.GetState()) {
				return fmt.Errorf("allocation %s of %s is %s (%s) of %s, want %v", id, e.requestID, a.GetState(), a.GetReason(), a.GetRequestId(), e.may)
			}
			return nil
		})
	}
	return group.Wait()
}

// once removes one of two entries for an allocation that ended between two pages, and keeps the
// later one.
func once(list []*bursarv1.Allocation) []*bursarv1.Allocation {
	latest := make(map[string]*bursarv1.Allocation)
	for _, a := range list {
		if known := latest[a.GetId()]; known.GetRevision() <= a.GetRevision() {
			latest[a.GetId()] = a
		}
	}
	return slices.Collect(maps.Values(latest))
}

// finish stops the load, and judges the whole history.
func (l *load) finish(but span) {
	l.t.Helper()
	l.stop()
	l.running.Wait()
	if l.t.Failed() {
		return
	}
	all, err := everything(l.t.Context(), l.admin, &bursarv1.AllocationServiceListRequest{Ended: true})
	if err != nil {
		l.t.Fatal(err)
	}
	all = once(all)
	faults, grants := sweep(all, but)
	for _, fault := range faults[:min(len(faults), 5)] {
		l.t.Error(fault)
	}
	requests := map[string]string{}
	for _, a := range all {
		key := a.GetCaller() + " " + a.GetRequestId()
		if other, twice := requests[key]; twice && a.GetReserveTime() != nil && l.book.knows(a.GetId()) && l.book.knows(other) {
			l.t.Errorf("request %s was granted as %s and as %s", key, other, a.GetId())
		}
		requests[key] = a.GetId()
	}
	doubled, told := l.book.faults()
	for _, fault := range doubled {
		l.t.Error(fault)
	}
	l.racing.mu.Lock()
	history, unanswered := l.racing.history, l.racing.unanswered
	l.racing.mu.Unlock()
	verdict := linearizable(history)
	if verdict != porcupine.Ok {
		l.t.Errorf("the calls of those who raced are not linearizable: %s", verdict)
	}
	l.t.Logf("%d allocations acknowledged, %d grants in the history, %d operations in the race, with %d attempts that were not answered: %s",
		told, grants, len(history), unanswered, verdict)
}

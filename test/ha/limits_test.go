//go:build linux

package ha

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// amounts are quantities by dimension.
type amounts map[string]int64

func (a amounts) add(r *bursarv1.Resource, sign int64) {
	a["memory"] += sign * r.GetMemoryBytes()
	a["cpu"] += sign * r.GetCpuMillis()
	a["instances"] += sign * r.GetInstances()
}

// accountsOf are the accounts that an allocation touches, with their limits.
func accountsOf(a *bursarv1.Allocation) map[string]amounts {
	user := a.GetLabels()["user"]
	list := map[string]amounts{
		"host " + a.GetHostId(): {"memory": hostMemory, "cpu": hostCPU},
		"user " + user:          {"instances": userInstances, "memory": userMemory},
	}
	if a.GetLabels()["creator"] == "racer" {
		list["racer "+user] = amounts{"instances": racerInstances}
	}
	return list
}

// sums are what accounts hold.
type sums map[string]amounts

func (s sums) change(a *bursarv1.Allocation, sign int64) {
	for name := range accountsOf(a) {
		if s[name] == nil {
			s[name] = amounts{}
		}
		s[name].add(a.GetEntitled(), sign)
	}
}

// over says which of an allocation's accounts hold more than they may.
func (s sums) over(a *bursarv1.Allocation) (faults []string) {
	for name, limits := range accountsOf(a) {
		for dimension, limit := range limits {
			if held := s[name][dimension]; held > limit {
				faults = append(faults, fmt.Sprintf("%s holds %d of %d %s with allocation %s", name, held, limit, dimension, a.GetId()))
			}
		}
	}
	return faults
}

func isLive(a *bursarv1.Allocation) bool { return a.GetState() == reserved || a.GetState() == active }

// replay follows a watch, transition by transition in the order of their revisions.
type replay struct {
	live   map[string]*bursarv1.Allocation
	held   sums
	faults []string
	grants int
}

// newReplay begins with what was listed.
func newReplay(listed []*bursarv1.Allocation) *replay {
	r := &replay{live: map[string]*bursarv1.Allocation{}, held: sums{}}
	for _, a := range listed {
		if isLive(a) {
			r.live[a.GetId()] = a
			r.held.change(a, 1)
		}
	}
	return r
}

func (r *replay) transition(a *bursarv1.Allocation) {
	before, was := r.live[a.GetId()]
	if was {
		r.held.change(before, -1)
		delete(r.live, a.GetId())
	}
	if !isLive(a) {
		return
	}
	r.live[a.GetId()] = a
	r.held.change(a, 1)
	if !was {
		r.grants++
		if !a.GetOverLimit() { // those that were taken over from a report may be more than fits
			r.faults = append(r.faults, r.held.over(a)...)
		}
	}
}

// span is a time in which what was granted is not judged by sweep.
type span struct{ from, to time.Time }

func (s span) contains(t time.Time) bool { return !t.Before(s.from) && !t.After(s.to) }

// sweep judges all allocations there have been, by their times in the ledger: at every grant, it
// checks what the accounts hold.
func sweep(all []*bursarv1.Allocation, but span) (faults []string, grants int) {
	type edge struct {
		at    *timestamppb.Timestamp
		begin bool
		of    *bursarv1.Allocation
	}
	var edges []edge
	for _, a := range all {
		if a.GetReserveTime() == nil {
			continue // was never granted
		}
		edges = append(edges, edge{a.GetReserveTime(), true, a})
		if !isLive(a) {
			edges = append(edges, edge{a.GetEndTime(), false, a})
		}
	}
	slices.SortStableFunc(edges, func(x, y edge) int {
		if c := x.at.AsTime().Compare(y.at.AsTime()); c != 0 {
			return c
		}
		switch { // at one instant what ends goes first, as one batch may free and grant
		case x.begin == y.begin:
			return 0
		case x.begin:
			return 1
		}
		return -1
	})
	held, holders := sums{}, map[string]*bursarv1.Allocation{}
	for _, e := range edges {
		if !e.begin {
			held.change(e.of, -1)
			delete(holders, e.of.GetId())
			continue
		}
		held.change(e.of, 1)
		holders[e.of.GetId()] = e.of
		grants++
		if e.of.GetOverLimit() || but.contains(e.at.AsTime()) {
			continue
		}
		if over := held.over(e.of); len(over) > 0 {
			faults = append(faults, strings.Join(over, ", ")+" together with"+described(holders, e.of))
		}
	}
	return faults, grants
}

// described are those that hold something of an account that an allocation has too, with their
// lives.
func described(holders map[string]*bursarv1.Allocation, of *bursarv1.Allocation) string {
	var b strings.Builder
	for _, a := range holders {
		if a.GetHostId() == of.GetHostId() || a.GetLabels()["user"] == of.GetLabels()["user"] {
			fmt.Fprintf(&b, "\n\t%v", a)
		}
	}
	return b.String()
}

// TestOvercommitIsFound: both checks can fail.
func TestOvercommitIsFound(t *testing.T) {
	began := time.Unix(1e9, 0)
	grant := func(id string, from, to int) *bursarv1.Allocation {
		memory, one := int64(userMemory/2), int64(1)
		a := &bursarv1.Allocation{
			Id: id, State: reserved, HostId: id, Labels: map[string]string{"user": "u"}, ReserveTime: timestamppb.New(began.Add(time.Duration(from))),
			Entitled: &bursarv1.Resource{MemoryBytes: &memory, Instances: &one},
		}
		if to > 0 {
			a.State, a.EndTime = released, timestamppb.New(began.Add(time.Duration(to)))
		}
		return a
	}
	sound := []*bursarv1.Allocation{grant("a", 1, 5), grant("b", 2, 0), grant("c", 5, 0)}
	if faults, grants := sweep(sound, span{}); len(faults) > 0 || grants != 3 {
		t.Errorf("%d grants, %v", grants, faults)
	}
	more := slices.Concat(sound, []*bursarv1.Allocation{grant("d", 4, 5)})
	if faults, _ := sweep(more, span{}); len(faults) == 0 {
		t.Error("three halves at once are not found")
	}
	if faults, _ := sweep(more, span{began, began.Add(10)}); len(faults) > 0 {
		t.Errorf("found where nothing is judged: %v", faults)
	}

	r := newReplay(nil)
	for _, a := range []*bursarv1.Allocation{grant("a", 1, 0), grant("b", 2, 0), grant("a", 1, 3), grant("c", 4, 0)} {
		r.transition(a)
	}
	if len(r.faults) > 0 || r.grants != 3 {
		t.Errorf("%d grants, %v", r.grants, r.faults)
	}
	if r.transition(grant("d", 5, 0)); len(r.faults) != 1 {
		t.Errorf("three halves at once: %v", r.faults)
	}
	adopted := newReplay(sound)
	adopted.transition(&bursarv1.Allocation{Id: "e", State: active, OverLimit: true, Labels: sound[0].GetLabels(), Entitled: sound[0].GetEntitled()})
	if len(adopted.faults) > 0 {
		t.Errorf("what was taken over: %v", adopted.faults)
	}
}

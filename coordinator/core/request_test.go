package core

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// Two callers ask for the same resources of one host. The first has reached the limit of a caller
// there. For the second, the resources are held for a request that has waited longer.
func TestTheEndOfAWaitIsExplainedToEachCallerOnItsOwn(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	config := ledger.Config{HostLiveBytes: 6 << 10, StarvationAfter: time.Second}
	r.core = NewCore(config, func() ledger.Placer { return placement.New(placement.Spread) }, DrawLeadership)
	r.lead(0)
	r.host()
	as := func(caller, id string, memory int64, wait time.Duration) *Request {
		return r.askAs(id, ledger.AllocateCommand{
			Actor: identity.Actor{Name: caller, Anyone: true}, RequestID: id, Labels: label.Of("user", caller), Wait: wait,
			Resource: resource.NewResource(resource.Vector{}.WithMemory(memory)), Wishes: &ledger.Wishes{Host: "h"},
		})
	}
	as("alice", "has", 10, 0)
	as("carol", "waits", 100, time.Hour)
	for i := range 2 { // which go past carol's
		as("alice", fmt.Sprint("has", i), 10, 0)
	}
	r.now = r.now.Add(2 * time.Second)
	const wait = 500 * time.Millisecond // the host is held for a second
	first, second := as("alice", "first", 10, wait), as("bob", "second", 10, wait)
	r.now = r.now.Add(wait)
	if err := r.core.Advance(r.now); err != nil {
		t.Fatal(err)
	}
	r.commit()
	for _, test := range []struct {
		ask  *Request
		note ledger.Note
	}{{first, ledger.NoteRefused}, {second, ledger.NoteHeld}} {
		insufficient, ok := errors.AsType[*ledger.InsufficientError](test.ask.Err)
		if !ok || insufficient.Reason != ledger.ReasonWaited || len(insufficient.Shortfalls) == 0 {
			t.Fatalf("%s: %v", test.ask.Command.Actor.Name, test.ask.Err)
		}
		s := insufficient.Shortfalls[0]
		if s.Note != test.note || strings.Contains(s.Detail, `caller "alice"`) != (test.ask == first) {
			t.Errorf("%s is told: %+v", test.ask.Command.Actor.Name, s)
		}
	}
}

// A request waits for a running allocation while a smaller, later request is granted. At the end of
// its wait, the explanation names the allocation that blocked it.
func TestTheEndOfAStarvedWaitNamesTheRunners(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	config := ledger.Config{StarvationAfter: time.Second}
	r.core = NewCore(config, func() ledger.Placer { return placement.New(placement.Spread) }, DrawLeadership)
	r.lead(0)
	r.host()
	runs := r.ask("runs", 70, 0)
	waits := r.ask("waits", 80, 10*time.Second)
	r.ask("passes", 10, 0)
	for range 10 {
		r.now = r.now.Add(time.Second)
		if err := r.core.Advance(r.now); err != nil {
			t.Fatal(err)
		}
		r.commit()
	}
	insufficient, ok := errors.AsType[*ledger.InsufficientError](waits.Err)
	if !ok || insufficient.Reason != ledger.ReasonWaited || len(insufficient.Runners) != 1 {
		t.Fatalf("got %v: %+v", waits.Err, insufficient)
	}
	if first := insufficient.Runners[0].Largest[0]; first.ID != runs.Result.Allocation.ID || first.Size.Memory() != 70 {
		t.Errorf("got %+v; want %s", first, runs.Result.Allocation.ID)
	}
}

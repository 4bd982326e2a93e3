package core

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// advance lets time pass from timer to timer, like the loop, and commits.
func (r *rig) advance(d time.Duration) {
	r.t.Helper()
	until := r.now.Add(d)
	for r.now < until {
		r.now = until
		if due, set := r.core.NextTimer(); set {
			r.now = min(until, due)
		}
		if err := r.core.Advance(r.now); err != nil {
			r.t.Fatal(err)
		}
		r.commit()
	}
}

// full returns a rig whose only host is occupied for longer than any test.
func full(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	r.askAs("holder", ledger.AllocateCommand{
		Actor: identity.Local(), RequestID: "holder", Labels: label.Of("user", "alice"), ReservationTTL: 24 * time.Hour,
		Resource: resource.NewResource(resource.Vector{}.WithMemory(100)),
	})
	r.commit()
	r.answered("holder reserved")
	return r
}

func (r *rig) state(id ledger.ID) ledger.State {
	a, _ := r.core.Ledger().Get(id)
	return a.State
}

// Every call of a request waits for its own time, and no longer.
func TestARepeatWaitsForItsOwnTime(t *testing.T) {
	r := full(t)
	first := r.ask("r", 60, 8*time.Second)
	id := first.Result.Allocation.ID
	second := r.ask("r", 60, 2*time.Second)
	r.commit()
	r.answered()
	r.advance(2*time.Second - 1)
	r.answered()
	r.advance(1)
	r.answered("r insufficient resources (waited)")
	if why, refused := errors.AsType[*ledger.InsufficientError](second.Err); !refused || len(why.Shortfalls) == 0 || r.state(id) != ledger.Waiting {
		t.Errorf("the second call: %v; the request is %s, want it to wait for the first", second.Err, r.state(id))
	}
	r.ask("r", 60, time.Hour) // longer than the request: that ends for both
	r.advance(6 * time.Second)
	r.answered("r insufficient resources (waited)", "r insufficient resources (waited)")
	if len(r.core.waiters) != 0 || len(r.core.deadlines) != 0 {
		t.Errorf("%d waiting, %d of them leaving", len(r.core.waiters), len(r.core.deadlines))
	}
}

// When the last caller has stopped waiting, the request is one whose caller went away.
func TestAfterARepeatOfAnAbandonedRequestNobodyWaits(t *testing.T) {
	r := full(t)
	first := r.ask("r", 60, time.Hour)
	id := first.Result.Allocation.ID
	r.withdraw(first)
	r.ask("r", 60, 2*time.Second)
	r.advance(2 * time.Second)
	r.answered("r insufficient resources (waited)")
	r.do(func(l *ledger.Ledger, now ledger.Instant) {
		if _, err := l.Cancel(now, ledger.CancelCommand{Actor: identity.Local(), RequestID: "holder"}); err != nil {
			t.Fatal(err)
		}
	})
	r.commit()
	if s := r.state(id); s != ledger.Waiting {
		t.Fatalf("it is %s, with nobody there to take it", s)
	}
	r.advance(20 * time.Second)
	if _, live := r.core.Ledger().Get(id); live {
		t.Error("it waits for ever, with nobody there")
	}
}

// What is granted in the same moment is the answer.
func TestARepeatIsGrantedAtItsLastMoment(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	r.askAs("holder", ledger.AllocateCommand{
		Actor: identity.Local(), RequestID: "holder", Labels: label.Of("user", "alice"), ReservationTTL: 2 * time.Second,
		Resource: resource.NewResource(resource.Vector{}.WithMemory(100)),
	})
	r.ask("r", 60, time.Hour)
	r.ask("r", 60, 2*time.Second)
	r.commit()
	r.answered("holder reserved")
	r.advance(2 * time.Second)
	r.answered("r reserved", "r reserved")
	if len(r.core.deadlines) != 0 {
		t.Errorf("%d asks are kept", len(r.core.deadlines))
	}
}

// Every removal of waiters also removes them from deadlines, because requests are reused.
func TestNoCallThatHasLeftIsKept(t *testing.T) {
	for name, off := range map[string]func(r *rig, repeat *Request){
		"leave":   func(r *rig, repeat *Request) { r.withdraw(repeat) },
		"hang up": func(r *rig, _ *Request) { r.core.DetachAll(r.now, ErrStopping) },
		"drop":    func(r *rig, _ *Request) { r.core.Drop(ErrNotLeading) },
		"grant": func(r *rig, _ *Request) {
			r.do(func(l *ledger.Ledger, now ledger.Instant) {
				_, _ = l.Cancel(now, ledger.CancelCommand{Actor: identity.Local(), RequestID: "holder"})
			})
			r.commit()
		},
	} {
		r := full(t)
		r.ask("r", 60, time.Hour)
		repeat := r.ask("r", 60, 2*time.Second)
		if len(r.core.deadlines) != 1 {
			t.Fatalf("%s: %d leave by themselves, want the repeat", name, len(r.core.deadlines))
		}
		off(r, repeat)
		if len(r.core.deadlines) != 0 {
			t.Errorf("%s: %d are kept", name, len(r.core.deadlines))
		}
	}
}

// A caller that has reached its limit gets the reason why its repeat was not granted.
func TestARepeatOfACallerWhoHasAllThatItMayIsToldWhatWasShort(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.core.Drop(ErrNotLeading)
	r.core.config.CallerLiveBytes = 64 << 10
	r.lead(0)
	r.host()
	r.ask("holder", 100, 0)
	r.ask("r", 60, time.Hour)
	for {
		request := r.askAs("more", ledger.AllocateCommand{
			Actor: identity.Local(), Labels: label.Of("user", "alice", "note", strings.Repeat("x", 200)), Wait: time.Hour, Async: true,
			Resource: resource.NewResource(resource.Vector{}.WithMemory(60)),
		})
		if request.Err != nil {
			break
		}
	}
	r.commit()
	repeat := r.ask("r", 60, time.Second)
	r.advance(time.Second)
	if why, refused := errors.AsType[*ledger.InsufficientError](repeat.Err); !refused || len(why.Shortfalls) == 0 {
		t.Errorf("it is told %v", repeat.Err)
	}
}

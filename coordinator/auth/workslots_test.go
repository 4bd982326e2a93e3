package auth

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/internal/admission"
)

func TestACallersRequestsAreWorkedOnAFewAtATimeInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkSlots(2)
		mallory, alice := admission.Caller{ID: "mallory"}, admission.Caller{ID: "alice"}
		entered := make(chan int, 100)
		for i := range 10 {
			go func() {
				if w.enter(t.Context(), mallory) == nil {
					entered <- i
				}
			}()
			synctest.Wait()
		}
		if len(entered) != 2 {
			t.Errorf("%d of ten are worked on; want 2", len(entered))
		}
		if err := w.enter(t.Context(), alice); err != nil { // it does not wait
			t.Fatal(err)
		}
		w.leave(alice)
		time.Sleep(activeTime)
		for i := range 10 {
			if got := <-entered; got != i {
				t.Errorf("%d is the next; want %d", got, i)
			}
			w.leave(mallory)
			synctest.Wait()
		}
		if len(w.callers) != 0 {
			t.Errorf("%d callers are left", len(w.callers))
		}
	})
}

// While others are active, half of the processors are left to them.
func TestACallerHasHalfOfTheSlotsWhileOthersAreActive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkSlots(4)
		mallory, alice := admission.Caller{ID: "mallory"}, admission.Caller{ID: "alice"}
		var entered atomic.Int64
		flood := func() {
			for range 8 {
				go func() {
					if w.enter(t.Context(), mallory) == nil {
						entered.Add(1)
					}
				}()
			}
			synctest.Wait()
		}
		if err := w.enter(t.Context(), alice); err != nil {
			t.Fatal(err)
		}
		w.leave(alice)
		if flood(); entered.Load() != 2 {
			t.Errorf("%d of mallory's are worked on while alice is active; want 2", entered.Load())
		}
		time.Sleep(2 * activeTime)
		w.leave(mallory)
		if flood(); entered.Load() != 5 {
			t.Errorf("%d were worked on when she has gone; want 5, four of them now", entered.Load())
		}
		for range 15 {
			w.leave(mallory)
			synctest.Wait()
		}
		if entered.Load() != 16 || len(w.callers) != 0 {
			t.Errorf("%d were worked on, %d callers are left", entered.Load(), len(w.callers))
		}
	})
}

// A slow body does not delay its caller's other requests, and a request that waits for something
// else releases its slot.
func TestARequestKeepsItsSlotForAMomentOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkSlots(1)
		slow, parked := &workSlot{work: w, caller: admission.Caller{ID: "alice"}}, &workSlot{work: w, caller: admission.Caller{ID: "alice"}}
		if err := slow.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := parked.enter(t.Context()); err != nil || time.Since(began) != workTime {
			t.Errorf("another one waited %s, %v; want %s", time.Since(began), err, workTime)
		}
		whole := make(chan error, 1)
		go func() { whole <- slow.cameWhole(t.Context()) }()
		synctest.Wait()
		if len(whole) > 0 {
			t.Error("one whose body has come late does not wait")
		}
		Parked(context.WithValue(t.Context(), workSlotKey{}, parked))
		Parked(t.Context()) // of none
		if err := <-whole; err != nil {
			t.Error(err)
		}
		slow.release()
		slow.release()
		if err := slow.cameWhole(t.Context()); err != nil || len(w.callers) != 0 {
			t.Errorf("%v, %d callers are left", err, len(w.callers))
		}
		var none *workSlot
		if err := errors.Join(none.enter(t.Context()), none.cameWhole(t.Context())); err != nil {
			t.Error(err)
		}
		none.release()
	})
}

// A request whose caller goes away during its wait keeps no slot, at any moment.
func TestWhoLeavesWhileItWaitsTakesNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkSlots(1)
		caller := admission.Caller{ID: "alice"}
		gone, leave := context.WithCancel(t.Context())
		if w.enter(t.Context(), caller) != nil {
			t.Fatal("the first one waits")
		}
		for range 3 {
			go func() { _ = w.enter(gone, caller) }()
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		w.leave(caller)
		if len(w.callers) != 0 {
			t.Errorf("%d callers are left", len(w.callers))
		}
		if w.enter(gone, caller) == nil {
			t.Error("one that has gone before gets a slot")
		}
		// it goes away and gets a slot at the same time
		if w.enter(t.Context(), caller) != nil {
			t.Fatal("there is one")
		}
		late, leave := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- w.enter(late, caller) }()
		synctest.Wait()
		w.mu.Lock() // it cannot look before both have happened
		leave()
		w.leaveLocked(caller)
		w.mu.Unlock()
		if <-result == nil {
			w.leave(caller)
		}
		if len(w.callers) != 0 {
			t.Errorf("%d callers are left", len(w.callers))
		}
	})
}

// Requests whose answers arrive together are resumed a few at a time, before new requests.
func TestAResumedRequestWaitsForASlotBeforeNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkSlots(2) // one of each, as there are two callers
		mallory, alice := admission.Caller{ID: "mallory"}, admission.Caller{ID: "alice"}
		of := func(caller admission.Caller) (*workSlot, context.Context) {
			s := &workSlot{work: w, caller: caller}
			return s, context.WithValue(t.Context(), workSlotKey{}, s)
		}
		resumed, contexts, order := make([]*workSlot, 3), make([]context.Context, 3), make(chan string, 10)
		for i := range resumed {
			resumed[i], contexts[i] = of(mallory)
			if err := resumed[i].enter(t.Context()); err != nil {
				t.Fatal(err)
			}
			Parked(contexts[i])
		}
		hers, _ := of(alice)
		if err := hers.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		first, _ := of(mallory)
		if err := first.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		start := func(name string, begin func()) {
			go func() {
				begin()
				order <- name
			}()
			synctest.Wait()
		}
		late, _ := of(mallory)
		start("new", func() { _ = late.enter(t.Context()) })
		for i := range resumed {
			start("resumed", func() { Resumed(contexts[i]) })
		}
		if len(order) > 0 {
			t.Fatalf("%q does not wait", <-order)
		}
		for i, s := range append([]*workSlot{first}, resumed...) {
			if s.release(); i < len(resumed) {
				if synctest.Wait(); len(order) != 1 {
					t.Fatalf("%d go on when one has ended; want 1", len(order))
				}
				if got := <-order; got != "resumed" {
					t.Errorf("%q is the next; want all resumed ones first", got)
				}
			}
		}
		if got := <-order; got != "new" {
			t.Errorf("%q is the last one", got)
		}
		late.release()
		hers.release()
		if len(w.callers) != 0 {
			t.Errorf("%d callers are left", len(w.callers))
		}
	})
}

// If only one caller is active, its requests do not wait for others. A caller that has gone does
// not count.
func TestAResumedRequestDoesNotWaitWhileItsCallerIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkSlots(1)
		held, s := &workSlot{work: w, caller: admission.Caller{ID: "alice"}}, &workSlot{work: w, caller: admission.Caller{ID: "alice"}}
		ctx := context.WithValue(t.Context(), workSlotKey{}, s)
		if err := s.enter(ctx); err != nil {
			t.Fatal(err)
		}
		Parked(ctx)
		if err := held.enter(ctx); err != nil {
			t.Fatal(err)
		}
		Resumed(ctx)
		if err := w.enter(t.Context(), admission.Caller{ID: "mallory"}); err != nil {
			t.Fatal(err)
		}
		gone, leave := context.WithCancel(ctx)
		leave()
		Resumed(gone)
		began := time.Now()
		if Resumed(ctx); time.Since(began) != workTime { // that of the one that holds it
			t.Errorf("it waited %s beside another caller; want %s", time.Since(began), workTime)
		}
		for _, s := range []*workSlot{s, held} {
			s.release()
		}
		w.leave(admission.Caller{ID: "mallory"})
		if len(w.callers) != 0 {
			t.Errorf("%d callers are left", len(w.callers))
		}
	})
}

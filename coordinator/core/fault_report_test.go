package core

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/coordinator/store/storetest"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// overloaded is a placer that panics over a host with a load above one.
type overloaded struct {
	ledger.Placer

	sprung *atomic.Int64
}

func (p *overloaded) Put(slot ledger.Slot, view ledger.HostView) {
	if view.LoadMillis > 1000 {
		p.sprung.Add(1)
		panic("a trap in Put")
	}
	p.Placer.Put(slot, view)
}

// TestAHeartbeatThatMakesTheLedgerPanicDoesNotLoseItsHost: one number ends only one leadership, and
// while the host's heartbeats are refused it counts as alive.
func TestAHeartbeatThatMakesTheLedgerPanicDoesNotLoseItsHost(t *testing.T) {
	sprung := new(atomic.Int64)
	r := newRig(t, storetest.NewMemory("test").Open())
	r.core.Drop(ErrNotLeading)
	r.core.newPlacer = func() ledger.Placer { return &overloaded{placement.New(placement.Spread), sprung} }
	r.lead(0)
	r.host()
	const overload = 2 << 30 // of a host with 1<<30 thousandths of a processor
	sequence := uint64(1)
	beat := func(load int64) (told, fault error) {
		sequence++
		memory := int64(100)
		report := &Report{
			Seen: r.core.ownEpoch(),
			Command: ledger.SyncCommand{HostID: "h", Incarnation: 1, Sequence: sequence, Full: true, Sample: &ledger.Sample{
				Time: r.now, MemoryAvailable: &memory, Load1Millis: &load, CPUTotalMillis: new(int64(1 << 30)),
			}},
			Done: func(err error) { told = err },
			From: &Origin{Procedure: "/Sync", Caller: "agent h", Message: &bursarv1.SyncRequest{HostId: "h", Sequence: sequence}},
		}
		fault = r.core.Do(r.now, report)
		return told, fault
	}
	told, fault := beat(overload)
	if _, ok := errors.AsType[*PanicError](told); !ok {
		t.Fatalf("told %v; want a *PanicError", told)
	}
	r.faulted(fault)
	for range 150 { // 12.5 minutes, a silent host is lost after five of them
		r.now = r.now.Add(5 * time.Second)
		told, fault := beat(overload)
		if _, ok := errors.AsType[*RefusedError](told); !ok || fault != nil {
			t.Fatalf("told %v, fault %v; want it refused", told, fault)
		}
	}
	if h, _ := r.core.Ledger().Host("h"); h.State == ledger.LostHost || h.State == ledger.Suspect || r.now.Sub(h.LastSync) > 0 {
		t.Errorf("the host is %s, heard of %s ago", h.State, r.now.Sub(h.LastSync))
	}
	if n := sprung.Load(); n != 1 {
		t.Errorf("the ledger panicked %d times; want once", n)
	}
	r.now = r.now.Add(RefusedFor)
	if told, fault := beat(1); told != nil || fault != nil {
		t.Errorf("a day later: %v, %v", told, fault)
	}
	r.now = r.now.Add(10 * time.Minute)
	if err := r.core.Advance(r.now); err != nil {
		t.Fatal(err)
	}
	r.now = r.now.Add(10 * time.Minute)
	if err := r.core.Advance(r.now); err != nil {
		t.Fatal(err)
	}
	if h, _ := r.core.Ledger().Host("h"); h.State != ledger.LostHost {
		t.Errorf("a host that is silent for long is %s", h.State)
	}
}

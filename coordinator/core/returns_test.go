package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/resource"
)

// After a change of leader the hosts of a large fleet get times for their reports, each its own,
// although all ask at once. A host that asks again keeps its time, and a host that reports earlier
// is accepted.
func TestAFleetReturnsToANewLeaderBitByBit(t *testing.T) {
	const hosts = 2000
	r := newRig(t, storetest.NewMemory("test").Open())
	r.do(func(l *ledger.Ledger, now ledger.Instant) {
		for i := range hosts {
			if _, err := l.Register(now, ledger.RegisterCommand{HostID: fmt.Sprint("h", i), Incarnation: 1, Capacity: resource.Vector{}.WithMemory(8)}); err != nil {
				t.Fatal(err)
			}
		}
	})
	r.commit()
	before := r.core.Meta().Epoch
	r.core.Drop(ErrNotLeading)
	r.lead(0)
	ask := func(host int) *Report {
		report := &Report{
			Seen: SeenEpoch{Epoch: before}, Command: ledger.SyncCommand{HostID: fmt.Sprint("h", host), Incarnation: 1, Sequence: 9}, Done: func(error) {},
		}
		if err := r.core.Do(r.now, report); err != nil {
			t.Fatal(err)
		}
		if report.Err != nil || report.Result.Action != ledger.ActionResync {
			t.Fatalf("host %d: %+v, %v", host, report.Result, report.Err)
		}
		return report
	}
	began := r.now
	come := make(map[time.Duration]int) // by second
	for i := range hosts {
		come[ask(i).ResyncAfter.Truncate(time.Second)]++
	}
	if got := ask(0).ResyncAfter; got != 0 {
		t.Errorf("the first host waits %s", got)
	}
	for second, n := range come {
		if n > 550 || second > 4*time.Second {
			t.Errorf("%d hosts come in second %s; want 500 in each of 4", n, second)
		}
	}
	last := ask(hosts - 1).ResyncAfter
	r.now = r.now.Add(time.Second)
	for range hosts { // one host takes nobody's turn
		ask(7)
	}
	if got := ask(hosts - 1).ResyncAfter; got != last-time.Second {
		t.Errorf("a second later the last host is to come after %s; want %s less a second", got, last)
	}
	register := &Registration{Seen: SeenEpoch{Epoch: before}, Command: ledger.RegisterCommand{HostID: "h1999", Incarnation: 2}, Done: func(error) {}}
	if err := r.core.Do(r.now, register); err != nil || register.Err != nil {
		t.Errorf("a host that comes early: %v, %v", err, register.Err)
	}
	r.now = began.Add(10 * time.Second)
	for i := range hosts {
		if got := ask(i).ResyncAfter; got != 0 {
			t.Fatalf("host %d waits another %s when its turn has passed", i, got)
		}
	}
}

// A fleet of some dozen hosts needs no spreading: its load is too small.
func TestASmallFleetReturnsAtOnce(t *testing.T) {
	r := returns{slots: make(map[string]ledger.Instant)}
	now := ledger.At(time.Unix(1_700_000_000, 0))
	for i := range 50 {
		if got := r.after(fmt.Sprint("h", i), now, 2*time.Millisecond); got != 0 {
			t.Errorf("host %d of 50 waits %s", i, got)
		}
	}
}

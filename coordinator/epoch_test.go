package coordinator

import (
	"errors"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

// A store that was put back gives out an epoch once more. Hosts that have seen the first one of that number must not pass
// for hosts of the second: what they know is of a ledger that is gone.
func TestAnEpochThatWasGivenOutTwiceIsExceeded(t *testing.T) {
	place := storetest.NewMemory("memory")
	backup := place.Copy("memory")
	r := newRig(t, place.Open())
	first := r.core.Meta().Epoch
	say := func(command Command) {
		t.Helper()
		if err := r.core.Do(r.now, command); err != nil {
			t.Fatal(err)
		}
	}
	enrol := func(host string, seen uint64) error {
		e := &Enrolment{Epoch: seen, Command: ledger.RegisterCommand{HostID: host, Incarnation: 1}, Done: func(error) {}}
		say(e)
		return e.Err
	}
	if err := enrol("h1", 0); err != nil {
		t.Fatal(err)
	}
	if err := enrol("h1", first); err != nil {
		t.Fatalf("a host that was told the epoch in this leadership: %v", err)
	}

	r.core.Drop(ErrNotLeading)
	place.Restore(backup)
	r.lead(0)
	if second := r.core.Meta().Epoch; second != first {
		t.Fatalf("epochs %d and %d", first, second)
	}
	if err := enrol("h2", 0); err != nil {
		t.Fatalf("a new host: %v", err)
	}
	if _, outdone := r.core.Outdone(); outdone {
		t.Fatal("outdone by a host that has seen nothing")
	}
	report := &Report{Epoch: first, Command: ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 9}, Done: func(error) {}}
	say(report)
	if !errors.Is(report.Err, ErrNotLeading) {
		t.Errorf("a host of the first epoch was heard in the second: %+v, %v", report.Result, report.Err)
	}
	if seen, outdone := r.core.Outdone(); !outdone || seen != first {
		t.Errorf("got %d, %v: want to be outdone by %d", seen, outdone, first)
	}
}

package core

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/resource"
)

// A store that was restored from a backup issues an epoch again. Hosts that have seen the first
// epoch of that number must not count as hosts of the second: they know a ledger that no longer
// exists.
func TestAnEpochThatWasGivenOutTwiceIsExceeded(t *testing.T) {
	place := storetest.NewMemory("memory")
	r := newRig(t, place.Open())
	r.host()
	backup := place.Copy("memory")
	r.core.Drop(ErrNotLeading)
	r.lead(0)
	first := r.core.Meta().Epoch
	say := func(command Command) {
		t.Helper()
		if err := r.core.Do(r.now, command); err != nil {
			t.Fatal(err)
		}
	}
	register := func(host string, seen uint64) error {
		e := &Registration{Seen: SeenEpoch{Epoch: seen}, Command: ledger.RegisterCommand{HostID: host, Incarnation: 1}, Done: func(error) {}}
		say(e)
		return e.Err
	}
	if err := register("h", 0); err != nil {
		t.Fatal(err)
	}
	if err := register("h", first); err != nil {
		t.Fatalf("a host that was told the epoch in this leadership: %v", err)
	}

	r.core.Drop(ErrNotLeading)
	place.Restore(backup)
	r.lead(0)
	if second := r.core.Meta().Epoch; second != first {
		t.Fatalf("epochs %d and %d", first, second)
	}
	if err := register("h2", 0); err != nil {
		t.Fatalf("a new host: %v", err)
	}
	if _, superseded := r.core.Superseded(); superseded {
		t.Fatal("superseded by a host that has seen nothing")
	}
	report := &Report{Seen: SeenEpoch{Epoch: first}, Command: ledger.SyncCommand{HostID: "h", Incarnation: 1, Sequence: 9}, Done: func(error) {}}
	say(report)
	if !errors.Is(report.Err, ErrNotLeading) {
		t.Errorf("a host of the first epoch was heard in the second: %+v, %v", report.Result, report.Err)
	}
	if seen, superseded := r.core.Superseded(); !superseded || seen != first {
		t.Errorf("got %d, %v: want to be superseded by %d", seen, superseded, first)
	}
}

// The number alone does not identify the leadership: with a repeated old message, a host of the
// first leadership looks as if it had the epoch from the second.
func TestAHostOfAnotherLeadershipOfTheSameEpochIsNotHeard(t *testing.T) {
	place := storetest.NewMemory("memory")
	r := newRig(t, place.Open())
	older := r.core.ownEpoch()
	r.host()
	r.commit()
	backup := place.Copy("memory")
	r.core.Drop(ErrNotLeading)
	r.lead(0)
	first := r.core.ownEpoch()
	r.core.Drop(ErrNotLeading)
	place.Restore(backup)
	r.lead(0)
	second := r.core.ownEpoch()
	if second.Epoch != first.Epoch || second.Number == first.Number {
		t.Fatalf("want two leaderships of one epoch: %+v, %+v", first, second)
	}
	say := func(seen SeenEpoch) *Report {
		t.Helper()
		report := &Report{Seen: seen, Command: ledger.SyncCommand{HostID: "h", Incarnation: 1, Sequence: 99, Full: true}, Done: func(error) {}}
		if err := r.core.Do(r.now, report); err != nil {
			t.Fatal(err)
		}
		return report
	}
	if late := say(older); late.Err != nil || late.Led != second {
		t.Fatalf("a host of an older epoch learns of this leadership: %+v, %v", late.Led, late.Err)
	}
	for name, seen := range map[string]SeenEpoch{"this leadership": second, "not known which, but told": {Epoch: second.Epoch}} {
		if err := say(seen).Err; errors.Is(err, ErrNotLeading) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if lost := say(first); !errors.Is(lost.Err, ErrNotLeading) {
		t.Errorf("a host of the leadership that is gone was heard in another one of its number: %+v, %v", lost.Result, lost.Err)
	}
	if seen, superseded := r.core.Superseded(); !superseded || seen != first.Epoch {
		t.Errorf("got %d, %v: want to be superseded by %d", seen, superseded, first.Epoch)
	}
}

// reports lets a host report that has seen an epoch.
func (r *rig) reports(host string, seen uint64, ofAgent bool) *Report {
	r.t.Helper()
	report := &Report{Seen: SeenEpoch{Epoch: seen}, OfAgent: ofAgent, Command: ledger.SyncCommand{HostID: host, Incarnation: 1, Sequence: 99, Full: true}, Done: func(error) {}}
	if err := r.core.Do(r.now, report); err != nil {
		r.t.Fatal(err)
	}
	return report
}

// again leads again, above the epoch that ended the previous leadership, and reports whether an
// epoch has ended it.
func (r *rig) again() bool {
	r.t.Helper()
	epoch, superseded := r.core.Superseded()
	if superseded {
		r.core.Drop(ErrNotLeading)
		r.lead(epoch + 1)
	}
	return superseded
}

// fence makes a host report an epoch that was never issued, and reports whether that has ended the
// leadership. The report must be refused in both cases, with the right error.
func (r *rig) fence(host string, ofAgent bool) bool {
	r.t.Helper()
	report := r.reports(host, r.core.Meta().Epoch+1, ofAgent)
	refused, ok := errors.AsType[*EpochError](report.Err)
	if !ok || refused.HostID != host || refused.Epoch != r.core.Meta().Epoch+1 {
		r.t.Fatalf("%s has seen a later epoch and is not refused for it: %+v, %v", host, report.Result, report.Err)
	}
	ended := r.again()
	if wrong, refused := errors.AsType[*ledger.FieldError](report.Err); ended != errors.Is(report.Err, ErrNotLeading) || ended == refused || refused && wrong.Field != "epoch" {
		r.t.Errorf("ended %v, with %v", ended, report.Err)
	}
	return ended
}

func (r *rig) fenceUntilRefused(host string, ofAgent bool) (ended int) {
	r.t.Helper()
	for ended < 100 && r.fence(host, ofAgent) {
		ended++
	}
	return ended
}

// An agent that was broken into must not keep the others from being served.
func TestOneHostEndsFewLeaderships(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	if ended := r.fenceUntilRefused("h", true); ended != fenceBurst {
		t.Errorf("%d leaderships ended by one host at once, want %d", ended, fenceBurst)
	}
	for range 12 {
		r.now = r.now.Add(fenceEvery - time.Second)
		if r.fence("h", true) {
			t.Error("its word counts before its time")
		}
		r.now = r.now.Add(time.Second)
		if !r.fence("h", true) || r.fence("h", true) {
			t.Errorf("want one leadership in %s", fenceEvery)
		}
	}
	if old := r.reports("h", 0, true); old.Err != nil || old.Result.Action != ledger.ActionResync {
		t.Errorf("a host that lied must be heard where it does not: %v", old.Err)
	}
	r.now = r.now.Add(time.Hour)
	if !r.fence("other", true) {
		t.Error("another host does not count")
	}
	if len(r.core.fenceLimits) != 1 {
		t.Errorf("%d hosts are kept, all but one of them long past", len(r.core.fenceLimits))
	}
}

// A caller that is not known as an agent can make up hosts.
func TestHostsThatNobodyVouchesForCountAsOne(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	ended := 0
	for i := range 100 {
		if r.fence(fmt.Sprint("made-up-", i), false) {
			ended++
		}
	}
	if ended != fenceBurst || len(r.core.fenceLimits) != 1 {
		t.Errorf("%d leaderships ended, %d reporters are kept", ended, len(r.core.fenceLimits))
	}
	if !r.fence("h", false) {
		t.Error("a host that the ledger has does not count for itself")
	}
	if !r.fence("new", true) {
		t.Error("a new host whose agent is known does not count for itself")
	}
}

// A fleet whose coordinators use a store that was restored from a backup.
func TestOneStepIsEnoughForAllHosts(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	latest := r.core.Meta().Epoch + 4000
	for i := range 100 {
		if report := r.reports(fmt.Sprint("h", i), latest, true); !errors.Is(report.Err, ErrNotLeading) {
			t.Fatalf("host %d: %v", i, report.Err)
		}
	}
	if len(r.core.fenceLimits) != 1 {
		t.Errorf("%d hosts have used up their word for the same epoch", len(r.core.fenceLimits))
	}
	if !r.again() || r.core.Meta().Epoch != latest+1 {
		t.Errorf("epoch %d after %d was seen", r.core.Meta().Epoch, latest)
	}
	if report := r.reports("h", latest, true); report.Err != nil || report.Result.Action != ledger.ActionResync {
		t.Errorf("in the next leadership: %+v, %v", report.Result, report.Err)
	}
	for i := range 100 {
		r.reports(fmt.Sprint("h", i), latest, true)
	}
	if r.again() {
		t.Error("a second step was made")
	}
}

// A report of a host that is not in the ledger changes nothing, and must not use memory.
func TestOnlyHostsOfTheLedgerAreNoted(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	for i := range 100 {
		report := r.reports(fmt.Sprint("made-up-", i), 0, false)
		if _, ok := errors.AsType[*ledger.NotFoundError](report.Err); !ok {
			t.Fatalf("an unknown host is told something: %+v, %v", report.Result, report.Err)
		}
	}
	if report := r.reports("h", 0, false); report.Err != nil {
		t.Error(report.Err)
	}
	if len(r.core.informed) != 1 || !r.core.informed["h"] {
		t.Errorf("%d hosts are noted, want the one that the ledger has", len(r.core.informed))
	}
}

// A host that is not in the ledger cannot contradict it: it must register. A caller that invents a
// host with this epoch's number, which is not secret, ends nothing.
func TestAnUnknownHostThatNamesThisEpochEndsNothing(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	report := r.reports("made-up", r.core.Meta().Epoch, false)
	if _, unknown := errors.AsType[*ledger.NotFoundError](report.Err); !unknown {
		t.Errorf("got %+v, %v: want it to be told that it is unknown", report.Result, report.Err)
	}
	registration := &Registration{
		Seen: SeenEpoch{Epoch: r.core.Meta().Epoch}, Done: func(error) {},
		Command: ledger.RegisterCommand{HostID: "made-up", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(1).WithCPU(1)},
	}
	if err := r.core.Do(r.now, registration); err != nil {
		t.Fatal(err)
	}
	if registration.Err != nil || registration.Result.Led != r.core.ownEpoch() {
		t.Errorf("it cannot register: %+v, %v", registration.Result, registration.Err)
	}
	if report := r.reports("made-up", r.core.Meta().Epoch, false); report.Err != nil {
		t.Errorf("it is registered and not heard: %v", report.Err)
	}
	if _, superseded := r.core.Superseded(); superseded || len(r.core.fenceLimits) > 0 {
		t.Error("the leadership ends because of a host that it does not have")
	}
}

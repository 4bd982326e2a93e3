package ledger_test

import (
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
)

// The end of an engine's main process is a transition, once. An agent that does not report it takes
// nothing back, and the engine's tombstone has the last word.
func TestTheEndOfAMainProcessIsKept(t *testing.T) {
	l := ready(t)
	id := reserve(t, l, "alice").ID
	run(t, l, id)
	sequence := uint64(1)
	code := int32(3)
	left := &ledger.LeaderEnd{Time: start, Policy: ledger.KeepAtLeaderEnd}
	known := &ledger.LeaderEnd{Time: start, Policy: ledger.KeepAtLeaderEnd, Exit: &ledger.ExitStatus{Code: &code}}
	again := int32(3)
	same := &ledger.LeaderEnd{Time: start, Policy: ledger.KeepAtLeaderEnd, Exit: &ledger.ExitStatus{Code: &again}}
	for _, step := range []struct {
		what           string
		reported, want *ledger.LeaderEnd
		transitions    int
	}{
		{"nothing", nil, nil, 0},
		{"its end", left, left, 1},
		{"the same", left, left, 0},
		{"nothing, as an older agent", nil, left, 0},
		{"how it ended", known, known, 1},
		{"the same in other memory", same, known, 0},
	} {
		l.Changes()
		sequence++
		_, err := l.Sync(start, ledger.SyncCommand{
			HostID: "h1", Incarnation: 1, Sequence: sequence, Seen: l.Revision(), Engines: []ledger.EngineReport{{ID: id, LeaderEnd: step.reported}},
		})
		must(t, err)
		a, _ := l.Get(id)
		if a.LeaderEnd != step.want || a.State != ledger.Active {
			t.Errorf("%s: it is %s with %+v; want active with %+v", step.what, a.State, a.LeaderEnd, step.want)
		}
		if got := len(l.Changes().Transitions); got != step.transitions {
			t.Errorf("%s: %d transitions; want %d", step.what, got, step.transitions)
		}
	}
	sequence++
	_, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: sequence, Ended: []ledger.EngineEnd{{ID: id, Exit: known.Exit}}})
	must(t, err)
	if a := last(t, l, id); a.State != ledger.Released || a.LeaderEnd != known || a.Exit != known.Exit {
		t.Errorf("it ended as %+v with %+v", a, a.LeaderEnd)
	}
}

// A coordinator whose store was put back takes the main process's end over with the engine.
func TestAnAdoptedEngineHasTheEndOfItsMainProcess(t *testing.T) {
	l := ready(t)
	before := reserve(t, l, "alice")
	run(t, l, before.ID)
	grant, _ := l.Get(before.ID)
	other := ready(t)
	left := &ledger.LeaderEnd{Time: start, Policy: ledger.StopAtLeaderEnd}
	_, err := other.Sync(start, ledger.SyncCommand{
		HostID: "h1", Incarnation: 1, Sequence: 2, Full: true, Engines: []ledger.EngineReport{{ID: before.ID, Grant: &grant, LeaderEnd: left}},
	})
	must(t, err)
	if a, there := other.Get(before.ID); !there || a.State != ledger.Active || a.LeaderEnd != left {
		t.Errorf("%t: %+v with %+v", there, a, a.LeaderEnd)
	}
}

// An agent's report may come before the Confirm of an engine whose main process has ended.
func TestAnEngineThatIsReportedBeforeItsConfirmHasTheEndOfItsMainProcess(t *testing.T) {
	l := ready(t)
	reserved := reserve(t, l, "alice")
	grant := reserved
	grant.State, grant.Process = ledger.Active, ledger.Process{PID: 7, StartTime: 8}
	left := &ledger.LeaderEnd{Time: start, Policy: ledger.KeepAtLeaderEnd}
	_, err := l.Sync(start, ledger.SyncCommand{
		HostID: "h1", Incarnation: 1, Sequence: 2, Full: true, Engines: []ledger.EngineReport{{ID: reserved.ID, Grant: &grant, LeaderEnd: left}},
	})
	must(t, err)
	if a, there := l.Get(reserved.ID); !there || a.State != ledger.Active || a.LeaderEnd != left {
		t.Errorf("%t: %s with %+v", there, a.State, a.LeaderEnd)
	}
}

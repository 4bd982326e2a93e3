package ledger_test

import (
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
)

// A time to live begins with the commit that holds its grant: with no other, and not before the
// ledger's time.
func TestATimeToLiveBeginsWithItsOwnCommit(t *testing.T) {
	at := func(seconds int) ledger.Instant { return start.Add(time.Duration(seconds) * time.Second) }
	l := ready(t)
	first := reserve(t, l, "alice") // for two minutes
	stored := l.Revision()
	second := reserve(t, l, "bob")
	sequence := uint64(1)
	lives := func(second int, a ledger.Allocation) bool {
		sequence++
		l.Heard(at(second), ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: sequence})
		_, live := l.Get(a.ID)
		return live
	}
	l.Advance(at(60))
	l.Durable(at(30), stored) // by a clock that was read before
	if n := l.Unstored(); n != 1 {
		t.Errorf("%d wait for their commit; want the second alone", n)
	}
	if !lives(179, first) || lives(180, first) || !lives(180, second) {
		t.Error("the first does not end two minutes after its commit, or the second ends without one")
	}
	l.Durable(at(200), l.Revision())
	if n := l.Unstored(); n != 0 {
		t.Errorf("%d wait for their commit; want none", n)
	}
	if !lives(319, second) || lives(320, second) {
		t.Error("the second does not end two minutes after its commit")
	}
}

func TestStatesHaveNames(t *testing.T) {
	for state, want := range map[ledger.State]string{0: "none", ledger.Waiting: "waiting", ledger.Lost: "lost", ledger.Lost + 1: "unknown", 255: "unknown"} {
		if got := state.String(); got != want {
			t.Errorf("state %d is %q; want %q", state, got, want)
		}
	}
}

// Rows hold only valid UTF-8, whatever was sent.
func TestWhatIsToldOfAProcessIsText(t *testing.T) {
	l := ready(t)
	a, err := l.Confirm(start, ledger.ConfirmCommand{
		Actor: identity.Local(), ID: reserve(t, l, "alice").ID, Process: ledger.Process{PID: 1, Cgroup: "a\xff", BootID: "\xfeb"},
	})
	must(t, err)
	if a.Process.Cgroup != "a\ufffd" || a.Process.BootID != "\ufffdb" {
		t.Errorf("it has %q and %q", a.Process.Cgroup, a.Process.BootID)
	}
}

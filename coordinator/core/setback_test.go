package core

import (
	"strings"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/identity"
)

// resync makes the host of the rig report its state of an earlier leadership, then register, and
// report its engines to this leadership.
func (r *rig) resync(seen SeenEpoch, revision uint64, engines ...ledger.EngineReport) {
	r.t.Helper()
	memory := int64(100)
	for _, command := range []Command{
		&Report{Seen: seen, Command: ledger.SyncCommand{HostID: "h", Incarnation: 1, Sequence: 2, Seen: revision}, Done: func(error) {}},
		&Registration{Seen: r.core.ownEpoch(), Command: ledger.RegisterCommand{HostID: "h", Incarnation: 1}, Done: func(error) {}},
		&Report{Seen: r.core.ownEpoch(), Command: ledger.SyncCommand{
			HostID: "h", Incarnation: 1, Sequence: 3, Full: true, Engines: engines, Sample: &ledger.Sample{MemoryAvailable: &memory},
		}, Done: func(error) {}},
	} {
		if err := r.core.Do(r.now, command); err != nil {
			r.t.Fatal(err)
		}
	}
	r.commit()
}

func TestAStoreThatWentBackInTimeIsNoticed(t *testing.T) {
	for name, restored := range map[string]bool{"restored from a backup": true, "as it was": false} {
		t.Run(name, func(t *testing.T) {
			place := storetest.NewMemory("memory")
			r := newRig(t, place.Open())
			r.host()
			backup := place.Copy("memory")
			granted := r.ask("after the backup", 10, 0).Result.Allocation
			r.commit()
			r.do(func(l *ledger.Ledger, now ledger.Instant) {
				if _, err := l.Confirm(now, ledger.ConfirmCommand{Actor: identity.Local(), ID: granted.ID, Process: ledger.Process{PID: 7, StartTime: 1}}); err != nil {
					t.Fatal(err)
				}
				granted, _ = l.Get(granted.ID)
			})
			r.commit()
			seen, revision, epoch := r.core.ownEpoch(), r.core.Ledger().Revision(), r.core.Meta().Epoch
			r.core.Drop(ErrNotLeading)
			if restored {
				place.Restore(backup)
			}
			r.lead(epoch + 1)
			loaded := r.core.Ledger().Revision()
			if s := r.core.Setback(); s.Seen != 0 {
				t.Fatalf("before anybody reported: %+v", s)
			}

			r.resync(seen, revision, ledger.EngineReport{ID: granted.ID, Grant: &granted})
			got := r.core.View().Setback
			want := Setback{Revision: loaded}
			if restored {
				want = Setback{Revision: loaded, Seen: revision, Hosts: 1, Host: "h", Adopted: 1}
			}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			warning := strings.Join(got.Warning(), "\n")
			if warned := strings.Contains(warning, "went back in time"); warned != restored {
				t.Errorf("warning %q", warning)
			}
			r.resync(r.core.ownEpoch(), r.core.Ledger().Revision(), ledger.EngineReport{ID: granted.ID, Grant: &granted})
			if again := r.core.Setback(); again.Hosts != want.Hosts || again.Adopted != want.Adopted {
				t.Errorf("counted twice: %+v", again)
			}
		})
	}
}

func TestAWatchAfterALaterRevisionIsNoticed(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	r.core.ObserveWatch(r.core.Ledger().Revision())
	if s := r.core.Setback(); s.Watches != 0 {
		t.Errorf("a watch from now on: %+v", s)
	}
	r.core.ObserveWatch(r.core.Ledger().Revision() + 1)
	if s := r.core.Setback(); s.Watches != 1 || len(s.Warning()) != 1 {
		t.Errorf("a watch after a later revision: %+v", s)
	}
}

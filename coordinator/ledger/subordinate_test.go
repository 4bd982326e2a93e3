package ledger_test

import (
	"errors"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// An engine of a subordinate user id that the ledger takes over from a report is charged to the
// owner, and only the id itself has the rights to it: with a seal at once, and without one after an
// operator has accepted it. Until then neither has them.
func TestASubordinateIDsEngineIsTakenOverWithoutRightsForItsOwner(t *testing.T) {
	owner := identity.Actor{Name: "mallory@h1", Users: []string{"mallory"}}
	itself := identity.Actor{Name: "100007@h1", Users: []string{"100007"}}
	for name, unvouched := range map[string]bool{"with a seal": false, "on its agent's word": true} {
		t.Run(name, func(t *testing.T) {
			w := newLiveWorld(t, ledger.Config{}, "h1")
			size := resource.NewResource(resource.Vector{}.WithMemory(1 << 30))
			available := int64(1 << 50)
			_, err := w.ledger.Sync(w.now, ledger.SyncCommand{
				HostID: "h1", Incarnation: 1, Sequence: 2, Full: true, Seen: w.ledger.Revision(), Sample: &ledger.Sample{Time: w.now, MemoryAvailable: &available},
				Engines: []ledger.EngineReport{{ID: 1000, Unvouched: unvouched, Grant: &ledger.Allocation{
					Process: ledger.Process{PID: 10, StartTime: 1}, Caller: itself.Name, Subordinate: true, Labels: label.Of("user", "mallory"), Requested: size, Entitled: size,
				}}},
			})
			must(t, err)
			release := func(actor identity.Actor) error {
				_, err := w.ledger.Release(w.now, ledger.ReleaseCommand{Actor: actor, ID: 1000})
				return err
			}
			refused := func(who identity.Actor) {
				t.Helper()
				if _, denied := errors.AsType[*ledger.DeniedError](release(who)); !denied {
					t.Errorf("%s may release it", who.Name)
				}
			}
			if unvouched {
				a, _ := w.ledger.Get(1000)
				if a.Labels.Value("user") != "@h1" || a.Subordinate || a.Claimed == nil || a.Claimed.ActingUser() != "100007" {
					t.Errorf("adopted as %+v, claimed as %+v: want it for @h1, and the claim with the acting user", a, a.Claimed)
				}
				refused(owner)
				refused(itself)
				_, _, err := w.ledger.Accept(w.now, "h1", nil, "olga")
				must(t, err)
			}
			if a, _ := w.ledger.Get(1000); a.Labels.Value("user") != "mallory" || a.RightsOf() != "100007" || a.Payer() != "mallory@h1" {
				t.Errorf("%+v: want that mallory is charged, and 100007 has the rights", a)
			}
			w.audit()
			refused(owner)
			must(t, release(itself))
			w.audit()
		})
	}
}

package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// limited is a ledger with so many allocations of 8 users, and a rule for each user.
func limited(t testing.TB, live int) (l *ledger.Ledger, rule ledger.Quota) {
	t.Helper()
	l = ledger.New(ledger.Config{HostLiveBytes: 1 << 40, CallerLiveBytes: 1 << 40}, newPlainPlacer())
	_, err := l.Register(start, ledger.RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(1 << 40)})
	must(t, err)
	available := int64(1 << 40)
	_, err = l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available}})
	must(t, err)
	rule = ledger.Quota{Selector: selector(t, "user=*"), Limit: resource.Vector{}.WithMemory(1 << 40), Source: ledger.SourceAPI}
	must(t, l.PutQuota(start, rule))
	for i := range live {
		_, err := l.Allocate(start, ledger.AllocateCommand{
			Actor: identity.Local(), Labels: label.Of("user", fmt.Sprint("u", i%8)), ReservationTTL: 24 * time.Hour,
			Resource: resource.NewResource(resource.Vector{}.WithMemory(1)), Wishes: &ledger.Wishes{Host: "h1"},
		})
		must(t, err)
	}
	l.Changes()
	return l, rule
}

// Nothing holds the loop: most changes of a rule change what it limits, and take no longer with
// more allocations.
func TestAChangeOfALimitTakesNoLongerWithMoreAllocations(t *testing.T) {
	few, rule := limited(t, 20)
	many, _ := limited(t, 20_000)
	change := func(l *ledger.Ledger) func() time.Duration {
		limit := rule
		return func() time.Duration {
			return took(func() {
				for range 100 {
					limit.Limit = limit.Limit.WithMemory(limit.Limit.Memory() - 1)
					must(t, l.PutQuota(start, limit))
					l.Changes()
				}
			})
		}
	}
	wantRatio(t, "a change of a limit", 3, change(few), change(many))
}

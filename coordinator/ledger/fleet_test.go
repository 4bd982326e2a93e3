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

// Another capacity of one host changes every share. That takes time in proportion to the users who
// wait, not to their square: eight times as many may take 24 times as long, and not 64 times.
func TestACapacityChangesInTimeHoweverManyUsersWait(t *testing.T) {
	bytes := func(n int64) resource.Vector { return resource.Vector{}.WithMemory(n) }
	takes := func(users int) time.Duration {
		l := ready(t)
		reserve(t, l, "other")
		for i := range users {
			user := fmt.Sprint("u", i)
			a, err := l.Allocate(start, ledger.AllocateCommand{
				Actor: identity.Actor{Name: user, Anyone: true}, Labels: label.Of("user", user),
				Wait: time.Hour, Async: true, Resource: resource.NewResource(bytes(1 << 40)),
			})
			must(t, err)
			if a.Allocation.State != ledger.Waiting {
				t.Fatalf("a request for all of a host that is not free is %s", a.Allocation.State)
			}
		}
		least := time.Hour
		for i := range 40 { // the least of many: a garbage collection may come in between
			capacity := bytes(1<<40 + int64(i) + 1)
			began := time.Now()
			_, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: uint64(i + 2), Capacity: &capacity})
			must(t, err)
			least = min(least, time.Since(began))
		}
		return least
	}
	if few, many := takes(500), takes(4000); many > 24*few {
		t.Errorf("with 500 users who wait it takes %v, with 4000 %v", few, many)
	}
}

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
	behind := func(users int) func() time.Duration {
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
		sequence := uint64(1)
		return func() time.Duration {
			sequence++
			capacity := bytes(1<<40 + int64(sequence))
			return took(func() {
				_, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: sequence, Capacity: &capacity})
				must(t, err)
			})
		}
	}
	wantRatio(t, "a capacity, with 4000 and 500 who wait,", 24, behind(500), behind(4000))
}

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

// inLine is a ledger in which so many requests wait behind one account, in their order, as so many
// kinds of so many users each.
func inLine(t testing.TB, requests, kinds, users int) (l *ledger.Ledger, ids []ledger.ID) {
	t.Helper()
	l, _ = limited(t, 0)
	must(t, l.PutQuota(start, ledger.Quota{Limit: resource.Vector{}.WithMemory(1)}))
	for i := range requests + 1 {
		a, err := l.Allocate(start, ledger.AllocateCommand{
			Actor: identity.Local(), Labels: label.Of("user", fmt.Sprint("u", i%users), "kind", fmt.Sprint(i/users%kinds)), Wait: time.Hour, Async: true,
			ReservationTTL: time.Hour, Resource: resource.NewResource(resource.Vector{}.WithMemory(1)), Wishes: &ledger.Wishes{Host: "h1"},
		})
		must(t, err)
		ids = append(ids, a.Allocation.ID)
	}
	return l, ids[1:]
}

// The place of a request in a long queue is an estimate, from an even sample of those who wait.
func TestAPlaceInALongQueueIsNearTheRightOne(t *testing.T) {
	const requests = 9000
	for _, test := range []struct{ kinds, users int }{{1, 1}, {requests, 1}, {100, 1}, {1, requests}, {10, 100}, {3, 1000}} {
		l, ids := inLine(t, requests, test.kinds, test.users)
		for _, want := range []int{0, 1, requests / 10, requests / 2, requests - 1} {
			x, err := l.ExplainID(start, ids[want], identity.Actor{})
			must(t, err)
			if off := x.Place - want; off < -requests/10 || off > requests/10 || (x.Place == 0) != (want == 0) {
				t.Errorf("%d kinds of %d users: place %d; want about %d", test.kinds, test.users, x.Place, want)
			}
		}
	}
}

func TestAPlaceTakesNoLongerInALongerQueue(t *testing.T) {
	for _, kinds := range []int{1, 20_000} {
		explain := func(requests int) func() time.Duration {
			l, ids := inLine(t, requests, kinds, 1)
			return func() time.Duration {
				return took(func() {
					for range 10 {
						_, err := l.ExplainID(start, ids[requests/2], identity.Actor{})
						must(t, err)
					}
				})
			}
		}
		wantRatio(t, fmt.Sprintf("the place of a request among %d kinds at most", kinds), 3, explain(5000), explain(20_000))
	}
}

package ledger

import (
	"testing"
	"time"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// Whose turn it is follows the fleet at once: alice has much of its memory until that grows, and
// bob much of its processors.
func TestAFleetThatGrowsChangesWhoseTurnItIs(t *testing.T) {
	for _, grows := range []bool{false, true} {
		l := New(Config{}, noPlacer{})
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		host := func(id string, memory int64) {
			_, err := l.Register(1, RegisterCommand{HostID: id, Incarnation: 1, Capacity: resource.Vector{}.WithMemory(memory).WithCPU(100)})
			check(err)
			_, err = l.Sync(1, SyncCommand{HostID: id, Incarnation: 1, Sequence: 1, Full: true, Sample: &Sample{MemoryAvailable: &memory}})
			check(err)
		}
		ask := func(user string, memory, cpu int64) ID {
			r, err := l.Allocate(1, AllocateCommand{
				Actor: identity.Local(), Labels: label.Of(userKey, user), Wishes: &Wishes{Host: "h1"}, Wait: time.Hour, Async: true,
				Resource: resource.NewResource(resource.Vector{}.WithMemory(memory).WithCPU(cpu)),
			})
			check(err)
			return r.Allocation.ID
		}
		host("h1", 100)
		check(l.PutQuota(1, Quota{Limit: resource.Vector{}.WithInstances(3)}))
		ask("alice", 60, 10)
		ask("bob", 10, 50)
		first := ask("carol", 1, 1)
		alice, bob := ask("alice", 1, 1), ask("bob", 1, 1)
		next := bob
		if grows {
			host("h2", 10000)
			next = alice
		}
		_, err := l.Release(1, ReleaseCommand{Actor: identity.Local(), ID: first})
		check(err)
		if l.entry(next).State != Reserved {
			t.Errorf("the fleet grows: %t; alice's is %s, bob's %s", grows, l.entry(alice).State, l.entry(bob).State)
		}
		for _, s := range l.shares {
			if s.weight != 1 {
				t.Errorf("%q weighs %d without a rule that says so", s.key, s.weight)
			}
		}
	}
}

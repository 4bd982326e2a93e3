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

// starvedBehind is a ledger with a host on which so many engines of users run, the first with the
// least memory, and a starved request for the whole of it.
func starvedBehind(t *testing.T, runners int) (*crowd, ledger.ID, ledger.Instant) {
	t.Helper()
	c := newCrowd(t)
	capacity := resource.Vector{}.WithMemory(1 << 40).WithCPU(100)
	_, err := c.Register(start, ledger.RegisterCommand{HostID: "h1", Incarnation: 2, Capacity: capacity})
	must(t, err)
	available := int64(1 << 40)
	_, err = c.Sync(start, ledger.SyncCommand{
		HostID: "h1", Incarnation: 2, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available, Time: 2},
	})
	must(t, err)
	selector, err := label.ParseSelector("team=x")
	must(t, err)
	must(t, c.PutQuota(start, ledger.Quota{Selector: selector, Limit: resource.Vector{}.WithMemory(1 << 40)}))
	ask := func(user string, memory int64) ledger.Allocation {
		result, err := c.Allocate(start, ledger.AllocateCommand{
			Actor: identity.Local(), Labels: label.Of("user", user, "team", "x"), Wait: time.Hour, Async: true, ReservationTTL: 24 * time.Hour,
			Resource: resource.NewResource(resource.Vector{}.WithMemory(memory)),
		})
		must(t, err)
		return result.Allocation
	}
	for i := range runners {
		ask(fmt.Sprint("runner", i), int64(i+1))
	}
	waits := ask("big", 1<<40)
	ask("small", 1)
	now := start.Add(31 * time.Second)
	c.goOn(now)
	return c, waits.ID, now
}

func TestTheLargestWhoStandInTheWayOfAStarvedRequestAreNamed(t *testing.T) {
	c, id, now := starvedBehind(t, 20)
	x, err := c.ExplainID(now, id, identity.Actor{})
	must(t, err)
	if len(x.Runners) != 2 {
		t.Fatalf("%d accounts have runners; want the quota and the host: %+v", len(x.Runners), x.Runners)
	}
	for _, r := range x.Runners {
		if r.Looked != 21 || r.Of != 21 || r.Dimension != resource.Memory || len(r.Largest) != 5 {
			t.Fatalf("%s: %d of %d looked at, %d named by %s; want 21 of 21, 5 by memory", r.Account, r.Looked, r.Of, len(r.Largest), r.Dimension)
		}
		for i, runner := range r.Largest {
			if want := int64(20 - i); runner.Size.Memory() != want || runner.User != fmt.Sprint("runner", want-1) || runner.HostID != "h1" || runner.Since != start {
				t.Errorf("%s: %+v is number %d; want the one of %d bytes", r.Account, runner, i, want)
			}
		}
	}
}

// Who calls through the agent of a host sees what runs there, and nothing else.
func TestRunnersOfOtherHostsAreNotNamedToAnAgent(t *testing.T) {
	c, id, now := starvedBehind(t, 3)
	for host, want := range map[string]int{"h1": 4, "h2": 0} {
		x, err := c.ExplainID(now, id, identity.Actor{Name: "agent", Host: host})
		must(t, err)
		if n := len(x.Runners[0].Largest); n != want {
			t.Errorf("%d are named to the agent of %s; want %d", n, host, want)
		}
	}
}

// However many there are, a few are looked at, the oldest: one step of the ledger takes no longer.
func TestFewRunnersAreLookedAt(t *testing.T) {
	c, id, now := starvedBehind(t, 10_000)
	x, err := c.ExplainID(now, id, identity.Actor{})
	must(t, err)
	for _, r := range x.Runners {
		if r.Looked > 2048 || r.Looked < 2000 || r.Of != 10_001 {
			t.Errorf("%s: %d of %d looked at; want 2048 of 10001 at most", r.Account, r.Looked, r.Of)
		}
	}
}

// A request that is not starved yet is not told who runs: others end every minute.
func TestWhoIsNotStarvedIsNotToldWhoRuns(t *testing.T) {
	c, id, _ := starvedBehind(t, 3)
	early, _ := c.Get(id)
	x, err := c.Explain(start, ledger.AllocateCommand{Actor: identity.Local(), Labels: early.Labels, Resource: early.Requested})
	must(t, err)
	if x.Verdict != ledger.Waits || x.Runners != nil {
		t.Errorf("got verdict %d, runners %+v; want no runners", x.Verdict, x.Runners)
	}
}

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

// alicesTurn has a fleet of two hosts, each with an engine that runs for days. So many requests of
// each of these users wait for h2, and then alice's for h1. Small ones pass them all, h2 is
// cordoned, and all are starved at once. It returns alice's request, and for whom h1 is held
// then.
func alicesTurn(t *testing.T, users, each int) (alice, heldFor ledger.ID) {
	t.Helper()
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	memory := int64(10)
	report := func(at ledger.Instant) {
		for _, id := range []string{"h1", "h2"} {
			_, err := l.Sync(at, ledger.SyncCommand{
				HostID: id, Incarnation: 1, Sequence: uint64(at), Full: at == start, Sample: &ledger.Sample{MemoryAvailable: &memory, Time: at},
			})
			must(t, err)
		}
	}
	request := func(user, job, host string, memory int64) ledger.Allocation {
		t.Helper()
		result, err := l.Allocate(start, ledger.AllocateCommand{
			Actor: identity.Local(), Labels: label.Of("user", user, "job", job), Wait: 24 * time.Hour, Async: true, ReservationTTL: 24 * time.Hour,
			Wishes: &ledger.Wishes{Host: host}, Resource: resource.NewResource(resource.Vector{}.WithMemory(memory)),
		})
		must(t, err)
		return result.Allocation
	}
	for _, id := range []string{"h1", "h2"} {
		_, err := l.Register(start, ledger.RegisterCommand{HostID: id, Incarnation: 1, Capacity: resource.Vector{}.WithMemory(memory)})
		must(t, err)
	}
	report(start)
	request("runner", "runs", "h1", 4)
	request("runner", "runs", "h2", 4)
	for user := range users {
		for i := range each { // of a kind of its own each: only the first of a kind is looked at
			request(fmt.Sprint("m", user), fmt.Sprint("j", i), "h2", 8)
		}
	}
	waits := request("alice", "big", "h1", 8)
	request("small", "runs", "h2", 1)
	request("small", "runs", "h1", 1)
	_, err := l.Cordon(start, "h2", "its fan is broken")
	must(t, err)
	const starvationAfter, interval = 30 * time.Second, 10 * time.Second
	for after := interval; after <= starvationAfter; after += interval {
		report(start.Add(after))
		goOn(l, start.Add(after))
	}
	h, _ := l.Host("h1")
	return waits.ID, h.Account.HeldFor
}

// What is held for starved requests is looked for 64 at a time. One user has more than these, and
// no hold would help: their host is cordoned. They are before alice in the order and stay there,
// since they never have a window. She has hers nevertheless: of one user 4 are visited.
func TestOneWhoStarvesALotKeepsNobodyFromAHold(t *testing.T) {
	for _, each := range []int{1, 4, 5, 63, 64, 65, 200} {
		if alice, heldFor := alicesTurn(t, 1, each); heldFor != alice {
			t.Errorf("next to %d starved requests of one user h1 is held for %s; want alice's %s", each, heldFor, alice)
		}
	}
}

// So it is with many such users: the 64 are requests for which a hold may help.
func TestManyWhoStarveKeepNobodyFromAHold(t *testing.T) {
	for _, of := range []struct{ users, each int }{{15, 20}, {16, 4}, {64, 1}, {100, 8}} {
		if alice, heldFor := alicesTurn(t, of.users, of.each); heldFor != alice {
			t.Errorf("next to %d users with %d starved requests each h1 is held for %s; want alice's %s", of.users, of.each, heldFor, alice)
		}
	}
}

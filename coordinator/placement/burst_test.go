package placement_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/resource"
)

// burst grants n equal requests one after the other and returns how many each host got.
func burst(t rapid.TB, b *books, n int, q ledger.Query) map[ledger.Slot]int {
	t.Helper()
	got := map[ledger.Slot]int{}
	q.Request = b.grant
	for range n {
		slot := b.choose(&q)
		if slot == ledger.NoSlot {
			t.Fatalf("no host after %v", got)
		}
		b.hosts[slot].used++
		b.put(slot)
		got[slot]++
	}
	return got
}

func most(got map[ledger.Slot]int) (m int) {
	for _, n := range got {
		m = max(m, n)
	}
	return m
}

// A grant of 1/32 of a host or more takes the host out of its class, so no host gets a second one
// before every host has one.
func TestSpreadGivesEveryHostOneBeforeAnyGetsTwo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hosts := rapid.IntRange(1, 200).Draw(t, "hosts")
		request := resource.Vector{}.WithMemory(rapid.Int64Range(8, 128).Draw(t, "GiB") * gib).WithInstances(1)
		b := newBooks(hosts, placement.Spread, request, kind{limit: large})
		b.turn = rapid.Uint64().Draw(t, "turn")
		for round := range int(256 * gib / request.Memory()) {
			if got := burst(t, b, hosts, ledger.Query{}); len(got) != hosts {
				t.Fatalf("round %d: %d of %d hosts got something: %v", round, len(got), hosts, got)
			}
		}
	})
}

// Grants too small to change a host's class are spread by the turn alone: multiples of the golden
// ratio are so far apart that of n consecutive ones at most three fall into the same n-th part.
func TestBurstOfSmallRequestsIsSpreadOverEquals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hosts := rapid.IntRange(1, 400).Draw(t, "hosts")
		policy := rapid.SampledFrom([]placement.Policy{placement.Spread, placement.Binpack}).Draw(t, "policy")
		b := newBooks(hosts, policy, resource.Vector{}.WithMemory(mib).WithInstances(1), kind{limit: large.WithMemory(250 * gib)})
		b.turn = rapid.Uint64().Draw(t, "turn")
		if got := burst(t, b, hosts, ledger.Query{}); most(got) > 3 || len(got) < hosts/2 {
			t.Fatalf("of %d hosts %d got something, one got %d", hosts, len(got), most(got))
		}
	})
}

// A host that is alone in its cell is one equal among others, not one half of all.
func TestBurstDoesNotFallOnTheOneHostThatDiffers(t *testing.T) {
	for _, policy := range []placement.Policy{placement.Spread, placement.Binpack} {
		b := newBooks(100, policy, resource.Vector{}.WithMemory(mib).WithInstances(1), kind{limit: large.WithMemory(250 * gib)})
		b.hosts[7].limit = &large
		small := large.WithMemory(50 * gib)
		b.hosts[42].limit = &small
		b.put(7)
		b.put(42)
		if got := burst(t, b, 100, ledger.Query{}); most(got) > 3 {
			t.Errorf("%v: one host got %d of 100: %v", policy, most(got), got)
		}
	}
}

// What would go to hosts that are left out does not all go to one neighbor, in the same cell or in
// another one.
func TestBurstGoesRoundHostsThatAreLeftOut(t *testing.T) {
	b := newBooks(200, placement.Spread, resource.Vector{}.WithMemory(mib).WithInstances(1), kind{limit: large.WithMemory(250 * gib)})
	got := burst(t, b, 100, ledger.Query{Rejected: func(slot ledger.Slot) bool { return slot%2 == 0 }})
	if most(got) > 6 {
		t.Errorf("every other one left out: one host got %d of 100: %v", most(got), got)
	}
	b = newBooks(200, placement.Spread, resource.Vector{}.WithMemory(mib).WithInstances(1),
		kind{limit: large.WithMemory(50 * gib)}, kind{limit: large.WithMemory(250 * gib)})
	got = burst(t, b, 100, ledger.Query{Rejected: func(slot ledger.Slot) bool { return slot%2 == 0 }})
	if most(got) > 6 {
		t.Errorf("all of one size left out: one host got %d of 100: %v", most(got), got)
	}
}

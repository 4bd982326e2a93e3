package placement_test

import (
	"fmt"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/label"
)

// racks makes hosts of which one in each hundred is in the same rack.
func racks(n int) (*placement.Index, []ledger.HostView) {
	x := placement.New(placement.Spread)
	hosts := make([]ledger.HostView, n)
	for i := range hosts {
		hosts[i] = labeled(empty, "rack", fmt.Sprint(i%100), "zone", string(rune('a'+i%2)))
		hosts[i].ID = id(ledger.Slot(i))
		x.Put(ledger.Slot(i), hosts[i])
	}
	return x, hosts
}

func inRack(n int) ledger.Query {
	return wishing(small, ledger.Wishes{Required: label.Of("rack", fmt.Sprint(n))})
}

func wantViews(t *testing.T, x *placement.Index, want int) {
	t.Helper()
	if free, _ := x.Views(); free != want {
		t.Fatalf("%d views: want %d", free, want)
	}
	if err := x.Audit(); err != nil {
		t.Fatal(err)
	}
}

// searchUntil asks until there are so many views and returns how many searches that took.
func searchUntil(t *testing.T, x *placement.Index, views int, q ledger.Query) int {
	t.Helper()
	for n := range 10_000 {
		if free, _ := x.Views(); free == views {
			return n
		}
		q.Turn++
		x.Choose(q)
	}
	t.Fatalf("no view after 10,000 searches")
	return 0
}

func averageSteps(x *placement.Index, q ledger.Query) int {
	const searches = 50
	steps := 0
	for range searches {
		q.Turn++
		x.Choose(q)
		steps += x.Steps()
	}
	return steps / searches
}

func TestViewIsMadeOnceItsAbsenceHasCostAsMuch(t *testing.T) {
	x, _ := racks(5000)
	if n := searchUntil(t, x, 2, inRack(7)); n < 10 || n > 500 {
		t.Errorf("made after %d searches; each looks at about a hundred hosts for nothing, of 5,000", n)
	}
	q := inRack(7)
	if slot := x.Choose(q); slot%100 != 7 || x.Steps() > 10 {
		t.Errorf("Choose = %d after %d steps", slot, x.Steps())
	}
	wantViews(t, x, 2)
}

func TestNoViewIsMadeWhereMostHostsQualify(t *testing.T) {
	x, _ := racks(1000)
	for turn := range 10_000 {
		q := wishing(small, ledger.Wishes{Required: label.Of("zone", "a")})
		q.Turn = uint64(turn)
		x.Choose(q)
	}
	wantViews(t, x, 1)
}

func TestSearchBeginsInTheSmallestViewThatHasAllItsHosts(t *testing.T) {
	x, _ := racks(5000)
	searchUntil(t, x, 2, inRack(8))
	q := wishing(small, ledger.Wishes{Required: label.Of("rack", "8", "zone", "a")})
	if slot := x.Choose(q); slot%100 != 8 || x.Steps() > 10 {
		t.Errorf("Choose = %d after %d steps", slot, x.Steps())
	}
}

// A view that prefers has the hosts in another order: it serves its own signature only.
func TestViewThatPrefersServesNobodyElse(t *testing.T) {
	x, hosts := racks(2000)
	// every other one in rack 7 is in use, and the only ones with an ssd
	for i := 7; i < len(hosts); i += 200 {
		hosts[i].Labels = hosts[i].Labels.With("disk", "ssd")
		hosts[i].Booked = grant.WithMemory(128 * gib)
		x.Put(ledger.Slot(i), hosts[i])
	}
	rack7 := label.Of("rack", "7")
	ssd := wishing(small, ledger.Wishes{Required: rack7, Preferred: label.Of("disk", "ssd")})
	hdd := wishing(small, ledger.Wishes{Required: rack7, Preferred: label.Of("disk", "hdd")})
	searchUntil(t, x, 2, ssd)
	if slot := x.Choose(ssd); slot%200 != 7 {
		t.Errorf("with an ssd: %d", slot)
	}
	for _, q := range []ledger.Query{hdd, inRack(7)} {
		if slot := x.Choose(q); slot%200 != 107 {
			t.Errorf("%+v: %d, which is not the least used", q.Wishes, slot)
		}
	}
}

// Signatures that are asked for once in a while do not push out the memory of one that is asked
// for again and again.
func TestViewIsMadeForWhoAsksMost(t *testing.T) {
	x, _ := racks(20_000)
	for i := range 4000 {
		rack := 8 + i/2%80
		if i < 20 || i%2 == 0 { // the first to be remembered, and always a recent one
			rack = 7
		}
		q := inRack(rack)
		q.Turn = uint64(i)
		x.Choose(q)
	}
	wantViews(t, x, 2)
	if n := averageSteps(x, inRack(7)); n > 10 {
		t.Errorf("%d steps: rack 7 has got no view", n)
	}
}

func TestViewIsDroppedWhenItsUpkeepCostMoreThanMakingIt(t *testing.T) {
	x, hosts := racks(500)
	searchUntil(t, x, 2, inRack(7))
	for n := range 4*len(hosts) + 1 {
		if n > 0 && n%1000 == 0 {
			wantViews(t, x, 2)
		}
		slot := 7 + n%5*100
		hosts[slot].Held = !hosts[slot].Held
		x.Put(ledger.Slot(slot), hosts[slot])
	}
	wantViews(t, x, 1)
	if slot := x.Choose(inRack(7)); slot%100 != 7 {
		t.Errorf("Choose = %d", slot)
	}
}

func TestViewInUseIsKept(t *testing.T) {
	x, hosts := racks(500)
	searchUntil(t, x, 2, inRack(7))
	for n := range 10_000 {
		x.Put(7, hosts[7])
		if n%1000 == 0 {
			x.Choose(inRack(7))
		}
	}
	wantViews(t, x, 2)
}

func TestOnlyAnIdleViewMakesRoomForAnother(t *testing.T) {
	x, _ := racks(2000)
	views := 1
	for rack := range 15 {
		views++
		searchUntil(t, x, views, inRack(rack))
	}
	// the sixteenth rack is asked for as often as the others: theirs are kept
	for round := range 200 {
		for rack := range 16 {
			q := inRack(rack)
			q.Turn = uint64(round)
			if slot := x.Choose(q); int(slot)%100 != rack {
				t.Fatalf("Choose = %d for rack %d", slot, rack)
			}
		}
	}
	if n := averageSteps(x, inRack(15)); n < 50 {
		t.Errorf("%d steps: rack 15 has got a view", n)
	}
	for turn := range 2000 { // nobody asks for rack 0 any more
		q := inRack(1 + turn%15)
		q.Turn = uint64(turn)
		x.Choose(q)
	}
	averageSteps(x, inRack(15))
	if n := averageSteps(x, inRack(15)); n > 10 {
		t.Errorf("%d steps: rack 15 has got no view", n)
	}
	wantViews(t, x, 16)
}

func TestViewsFollowLabelsLimitsAndRemovals(t *testing.T) {
	x, hosts := racks(500)
	q := inRack(7)
	searchUntil(t, x, 2, q)
	for i := 7; i < 500; i += 100 {
		switch i / 100 {
		case 0:
			hosts[i].Labels = label.Of("rack", "8")
			x.Put(ledger.Slot(i), hosts[i])
		case 1:
			x.Remove(ledger.Slot(i))
		case 2:
			hosts[i].Limit, hosts[i].Available = hosts[i].Limit.WithMemory(gib), hosts[i].Available.WithMemory(gib)
			x.Put(ledger.Slot(i), hosts[i])
		}
	}
	x.Put(1000, with(hosts[307], func(v *ledger.HostView) { v.ID = "late" }))
	wantViews(t, x, 2)
	got := map[ledger.Slot]bool{}
	for _, slot := range order(x, q) {
		got[slot] = true
	}
	if len(got) != 3 || !got[307] || !got[407] || !got[1000] {
		t.Errorf("rack 7 is %v", got)
	}
}

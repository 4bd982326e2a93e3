package placement

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
)

// seeker takes the first place that has the need and is not refused, and counts what it looks at.
type seeker struct {
	need    room
	refused map[ledger.Slot]bool
	steps   int
}

func (s *seeker) wants(most room) bool {
	s.steps++
	return most.holds(s.need)
}

func (s *seeker) takes(p *place) bool {
	s.steps++
	return p.holds(s.need) && !s.refused[p.slot]
}

func drawRoom(t *rapid.T) room {
	return room{rapid.Int64Range(0, 40).Draw(t, "memory"), rapid.Int64Range(0, 40).Draw(t, "cpu")}
}

// A visit finds a place wherever it begins if there is one, and every bound holds what is below
// it, at every size.
func TestCellFindsWhatIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c cell
		n := rapid.SampledFrom([]int{0, 1, 31, 32, 33, 1023, 1024, 1025, 3000, 40_000}).Draw(t, "places")
		for slot := range n {
			c.add(place{room{int64(slot % 7), int64(slot % 11)}, ledger.Slot(slot)})
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				n++
				c.add(place{drawRoom(t), ledger.Slot(n)})
			},
			"update": func(t *rapid.T) {
				if len(c.places) > 0 {
					c.update(rapid.IntRange(0, len(c.places)-1).Draw(t, "at"), drawRoom(t))
				}
			},
			"take": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 1, 1, 40, 2000}).Draw(t, "places") {
					if len(c.places) > 0 {
						at := rapid.IntRange(0, len(c.places)-1).Draw(t, "at")
						last := c.places[len(c.places)-1].slot
						if moved := c.remove(at); moved != last {
							t.Fatalf("%d moved, not %d", moved, last)
						}
					}
				}
			},
			"": func(t *rapid.T) {
				s := &seeker{need: drawRoom(t), refused: map[ledger.Slot]bool{}}
				found := map[ledger.Slot]bool{}
				for _, p := range c.places {
					if p.holds(s.need) {
						found[p.slot] = true
					}
				}
				if len(c.places) > 0 {
					slot := c.visit(s, rapid.IntRange(0, len(c.places)-1).Draw(t, "start"))
					if (slot != ledger.NoSlot) != (len(found) > 0) || slot != ledger.NoSlot && !found[slot] {
						t.Fatalf("found %d: of %d places %d have %v", slot, len(c.places), len(found), s.need)
					}
				}
				if err := c.audit(); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}

// Every place is visited once, so that a visitor that refuses all except one gets that one.
func TestCellVisitsEveryPlaceOnce(t *testing.T) {
	for _, n := range []int{1, 32, 33, 1000, 1056, 2100} {
		var c cell
		for slot := range n {
			c.add(place{room{1, 1}, ledger.Slot(slot)})
		}
		for start := 0; start < n; start += 1 + n/5 {
			s := &seeker{need: room{1, 1}, refused: map[ledger.Slot]bool{}}
			for range n {
				s.refused[c.visit(s, start)] = true
			}
			if len(s.refused) != n || c.visit(s, start) != ledger.NoSlot {
				t.Fatalf("%d places from %d: visited %d", n, start, len(s.refused))
			}
		}
	}
}

// One place among a hundred thousand costs as much as three storeys do, and so does learning that
// it is gone.
func TestCellFindsTheOneThatHasRoom(t *testing.T) {
	var c cell
	const n = 100_000
	for slot := range n {
		c.add(place{room{1, 1}, ledger.Slot(slot)})
	}
	c.update(77_777, room{2, 2})
	for _, want := range []ledger.Slot{77_777, ledger.NoSlot} {
		s := &seeker{need: room{2, 2}}
		if got := c.visit(s, 12_345); got != want || s.steps > 4+3*fan {
			t.Errorf("found %d after %d steps: want %d", got, s.steps, want)
		}
		c.update(77_777, room{1, 1})
	}
	s := &seeker{need: room{2, 2}}
	if c.visit(s, 0); s.steps > 4 {
		t.Errorf("%d steps to learn again what was learned before", s.steps)
	}
}

func TestLevelsRiseWithQuantitiesAndHaveRoundEdges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64Min(0).Draw(t, "a"), rapid.Int64Min(0).Draw(t, "b")
		if a, b := min(a, b), max(a, b); memoryLevel(a) > memoryLevel(b) || cpuLevel(a) > cpuLevel(b) {
			t.Fatalf("%d is on a higher level than %d", a, b)
		}
		if l := memoryLevel(a); l < 0 || l >= levels {
			t.Fatalf("level %d", l)
		}
	})
	for _, n := range []int64{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 128, 256, 512, 1024} {
		if gib := n << 30; memoryLevel(gib) != memoryLevel(gib-1)+1 {
			t.Errorf("%d GiB is no edge", n)
		}
		if millis := n * 1000; cpuLevel(millis) != cpuLevel(millis-1)+1 {
			t.Errorf("%d cores are no edge", n)
		}
	}
}

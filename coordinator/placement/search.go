package placement

import (
	"math/bits"

	"github.com/bursar/bursar/coordinator/ledger"
)

// search is a query in the form that the index uses. There is one, for all queries.
type search struct {
	signature
	fleet *fleet
	of    aspect

	need        room
	row, column int // levels of need: lower ones cannot hold it
	instances   int64
	rejected    func(ledger.Slot) bool
	draw        uint64 // a fraction of 2^64 that changes with Query.Turn

	avoiding bool
	avoided  []uint64 // by slot: the last search that avoided it
	number   uint64   // of this search

	// partial is set if the view admits hosts that the signature does not: these are checked one
	// by one.
	partial     bool
	wasted      int // hosts with room that were checked without success because there is no view
	best        ledger.Slot
	bestMatches int

	cells []int // scratch
	// steps counts the bounds and hosts that were checked, for the test that they do not grow with
	// the fleet.
	steps int
}

// goldenStep is 2^64 divided by the golden ratio. Its multiples are far apart, so consecutive
// turns are spread over the equals as evenly as is possible without knowing their number.
const goldenStep = 0x9e3779b97f4a7c15

// begin sets the search to a query.
func (s *search) begin(q *ledger.Query) {
	s.need = room{q.Request.Memory(), q.Request.CPU()}
	s.row, s.column = memoryLevel(s.need.memory), cpuLevel(s.need.cpu)
	s.instances = q.Request.Instances()
	s.rejected, s.draw = q.Rejected, q.Turn*goldenStep
	s.avoiding = false
	s.number++
	s.steps = 0
	s.signature = signature{custom: q.Request.Custom()}
	if s.instances > 1 {
		s.signature.instances = s.instances
	}
	if w := q.Wishes; w != nil {
		s.required, s.preferred = w.Required, w.Preferred
		if r := w.Rules; r != nil {
			s.must, s.never, s.better = r.Required, r.Avoided, r.Preferred
		}
		s.avoid(w.Avoid)
	}
}

// avoid marks the hosts of these ids.
func (s *search) avoid(ids []string) {
	for _, id := range ids {
		if slot, known := s.fleet.slots[id]; known {
			if n := len(s.fleet.hosts); n > len(s.avoided) {
				s.avoided = append(s.avoided, make([]uint64, n-len(s.avoided))...)
			}
			s.avoided[slot] = s.number
			s.avoiding = true
		}
	}
}

// avoids reports whether a host is not to be used, by its id.
func (s *search) avoids(slot ledger.Slot) bool {
	return s.avoiding && int(slot) < len(s.avoided) && s.avoided[slot] == s.number
}

// grades is a bit for each of the four kinds of grade (held or not, spent or not) that the search
// looks at, spent ones only for a request for no instance, repeated to fill a word of view.ranked.
func (s *search) grades() uint64 {
	const all = 0x1111111111111111
	kinds := uint64(1 | 1<<gradeHeld)
	if s.instances <= 0 {
		kinds |= kinds << gradeSpent
	}
	return kinds * all
}

// wants reports whether a host with at most that room can fit.
func (s *search) wants(most room) bool {
	s.steps++
	return most.holds(s.need)
}

// takes reports whether the search is over.
func (s *search) takes(p *place) bool {
	s.steps++
	return p.holds(s.need) && s.accepts(p.slot)
}

// accepts decides on a host that has the room and whose rank is right.
func (s *search) accepts(slot ledger.Slot) bool {
	if s.avoids(slot) {
		return false
	}
	h := &s.fleet.hosts[slot]
	if s.partial && (!s.labelled(h) || !s.countsFit(h, s.of)) {
		s.wasted++
		return false
	}
	if s.rejected != nil && s.rejected(slot) {
		return false
	}
	if s.partial && s.preferences() > 0 {
		return s.prefers(slot, s.matches(h))
	}
	return true
}

// prefers accepts a host with all preferred labels, and remembers the first one with the most.
func (s *search) prefers(slot ledger.Slot, matches int) bool {
	if matches > s.bestMatches {
		s.best, s.bestMatches = slot, matches
	}
	if matches < s.preferences() {
		s.wasted++
		return false
	}
	return true
}

// position turns the search's draw into one of n positions.
func (s *search) position(n int) int {
	high, _ := bits.Mul64(s.draw, uint64(n)) //nolint:gosec // n counts hosts
	return int(high)                         //nolint:gosec // below n
}

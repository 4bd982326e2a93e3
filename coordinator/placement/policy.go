package placement

import (
	"fmt"
	"math/bits"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Policy is the order in which hosts with room are chosen. The zero value is Spread.
type Policy uint8

// The policies of design §10.
const (
	// Spread takes the least used host first: the load is even, and the loss of a host affects
	// little.
	Spread Policy = iota
	// Binpack takes the most used host first: whole hosts stay free for large requests, or can be
	// switched off.
	Binpack
)

func (p Policy) String() string {
	switch p {
	case Spread:
		return "spread"
	case Binpack:
		return "binpack"
	default:
		return "unknown"
	}
}

// PolicyFromString parses the result of String; "" is Spread.
func PolicyFromString(text string) (Policy, error) {
	switch text {
	case "", "spread":
		return Spread, nil
	case "binpack":
		return Binpack, nil
	default:
		return 0, fmt.Errorf("placement policy %q: want spread or binpack", text)
	}
}

// A grade is the part of a host's score that does not depend on the query: from high to low, five
// bits for the policy's class of use, two for the class of measured load, and two that a search
// includes or leaves out. Lower is better.
const (
	useClasses = 32 // 1/32 of a host: hosts closer than that are equals
	gradeHeld  = 1  // the host is held for a request
	gradeSpent = 2  // it has no instance left: only a request for none, which is rare, fits
	gradeUse   = (useClasses - 1) << 4
	grades     = useClasses * 4 * 4
)

// loadEdges are where the classes of measured load begin, in thousandths per core: below half a
// core's worth of work for every core, below a full one, up to twice that, and beyond.
var loadEdges = [...]int64{500, 1000, 2000}

func loadClass(millis int64) int {
	class := 0
	for class < len(loadEdges) && millis >= loadEdges[class] {
		class++
	}
	return class
}

// useClass is floor(32 × booked / limit), at most 31; 0 for a dimension that the host does not
// have.
func useClass(booked, limit int64) int {
	switch {
	case limit <= 0 || booked <= 0:
		return 0
	case booked >= limit:
		return useClasses - 1
	}
	high, low := bits.Mul64(uint64(booked), useClasses)
	class, _ := bits.Div64(high, low, uint64(limit)) // booked < limit, so it is below 32
	return int(class)                                //nolint:gosec // see above
}

// grade returns the host's grade: by its use, then by load.
func (p Policy) grade(h *host, loadMillis int64, held bool) uint16 {
	grade := p.use(h) | uint16(loadClass(loadMillis))<<2 //nolint:gosec // below 4
	if held {
		grade |= gradeHeld
	}
	return grade
}

// use returns the part of the grade that depends on the most used dimension of the host.
func (p Policy) use(h *host) uint16 {
	most, used := &h.amounts[limit], &h.amounts[booked]
	use := max(useClass(used.memory, most.memory), useClass(used.cpu, most.cpu), useClass(used.instances, most.instances))
	if h.custom != nil {
		for _, q := range h.custom[limit] {
			use = max(use, useClass(h.count(booked, q.Name), q.Value))
		}
	}
	if p == Binpack {
		use = useClasses - 1 - use
	}
	return uint16(use) << 4 //nolint:gosec // below useClasses
}

var _ ledger.Placer = (*Index)(nil)

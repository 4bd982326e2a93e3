package commit

import (
	"slices"

	"github.com/bursar/bursar/coordinator/store"
)

// mostCallerSizes bounds the callers that are counted. Names have at most 256 bytes: 12 MiB in
// total.
const mostCallerSizes = 32768

// callerSizes count the bytes of each caller in the history. The zero value is empty.
//
// There may be more callers than counters. The counters are those of Misra and Gries, "Finding
// repeated elements" (1982), in the form that lowers all of them by their median when there are too
// many. A size is never too large. It is too small by at most 2 × (all added bytes) /
// mostCallerSizes, which is 1.2 MB for 20 GB.
type callerSizes struct {
	sizes map[string]*callerSize
	// lowered is set once sizes were lowered: a caller that is added later may then have older rows
	// that are not counted.
	lowered bool
}

// callerSize is the size of one caller in the history.
type callerSize struct {
	bytes  int64
	oldest store.Position // its rows before this position stay
}

// add counts a row behind a position.
func (s *callerSizes) add(caller string, bytes int64, behind store.Position) {
	c := s.sizes[caller]
	if c == nil {
		if len(s.sizes) >= mostCallerSizes {
			s.lower()
		}
		if s.sizes == nil {
			s.sizes = make(map[string]*callerSize)
		}
		c = new(callerSize)
		if !s.lowered {
			c.oldest = behind
		}
		s.sizes[caller] = c
	}
	c.bytes += bytes
}

// subtract removes a row from the count.
func (s *callerSizes) subtract(caller string, bytes int64) {
	if c := s.sizes[caller]; c != nil {
		if c.bytes -= bytes; c.bytes <= 0 {
			delete(s.sizes, caller)
		}
	}
}

// lower makes room for at least half as many counters as there are.
func (s *callerSizes) lower() {
	s.lowered = true
	all := make([]int64, 0, len(s.sizes))
	for _, c := range s.sizes {
		all = append(all, c.bytes)
	}
	slices.Sort(all)
	median := all[len(all)/2]
	for name, c := range s.sizes {
		if c.bytes -= median; c.bytes <= 0 {
			delete(s.sizes, name)
		}
	}
}

package policy

import (
	"slices"
	"time"
)

// window is the mean of the CPU that an engine used over the last ticks. A sample that was brought
// forward counts for its own time.
type window struct {
	spans []span
}

// span is a time over which the mean is known.
type span struct {
	length time.Duration
	mean   float64 // thousandths of a core
}

// add takes a sample, whose mean is that since the one before, at last. It returns the mean over
// the window if all of that is known.
func (w *window) add(tick time.Duration, use Use, last time.Time) (mean int64, known bool) {
	if last.IsZero() {
		return 0, false // it is not known since when
	}
	length := use.Time.Sub(last)
	if use.AtLeast {
		w.spans = nil
		return 0, false
	}
	w.spans = append(w.spans, span{length, float64(use.CPUMillis)})
	var all span
	for i, s := range slices.Backward(w.spans) {
		if all.length >= windowTicks*tick {
			w.spans = slices.Delete(w.spans, 0, i+1)
			break
		}
		all = all.and(s)
	}
	if all.length < windowTicks*tick || all.length == 0 {
		return 0, false
	}
	return int64(all.mean), true
}

// and is both together.
func (s span) and(t span) span {
	length := s.length + t.length
	if length <= 0 {
		return s
	}
	return span{length, (s.mean*s.length.Seconds() + t.mean*t.length.Seconds()) / length.Seconds()}
}

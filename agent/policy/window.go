package policy

import (
	"slices"
	"time"
)

// window computes an engine's mean CPU use over the last windowTicks ticks. Each sample has the
// weight of the time it covers.
type window struct {
	spans []span
}

// span is a period with a known mean.
type span struct {
	length time.Duration
	mean   float64 // thousandths of a core
}

// add takes a sample, whose mean covers the time since the previous sample, taken at last. It
// returns the mean over the window if samples cover the whole window.
func (w *window) add(tick time.Duration, use Use, last time.Time) (mean int64, known bool) {
	if last.IsZero() {
		return 0, false // the start of the covered time is unknown
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

// and returns the union of two adjacent spans.
func (s span) and(t span) span {
	length := s.length + t.length
	if length <= 0 {
		return s
	}
	return span{length, (s.mean*s.length.Seconds() + t.mean*t.length.Seconds()) / length.Seconds()}
}

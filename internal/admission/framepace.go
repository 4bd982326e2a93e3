package admission

import "time"

const (
	// frameRate is how many useless frames of one owner are read in a second, and frameBurst how
	// many of them may come at once. A frame takes up to 30 µs with the answer that it causes, so
	// these frames take a sixteenth of a processor. 8,192 is more than the streams that a
	// connection may have.
	frameRate, frameBurst = 2000, 8192
	// framesOfCall is how many frames are free with each admitted call that was answered.
	framesOfCall = 16
	// bytesOfFrame is how many bytes of an answer make one frame free: the client's WINDOW_UPDATE.
	bytesOfFrame = 512
	// leastSleep is the shortest sleep of the reader: timers are not exact.
	leastSleep = 4 * time.Millisecond
)

// framePace counts the useless frames of one owner. HEADERS and short DATA count until the call is
// answered. It bounds the work for the frames of a flood. Callers whose calls are answered never
// wait for it, however many calls they make. The lock of turns guards it.
type framePace struct {
	spent float64 // frames
	at    time.Time
}

// take counts frames, and returns how long the reader sleeps before the server handles them.
func (p *framePace) take(frames int, now time.Time) time.Duration {
	p.spent = p.left(now) + float64(frames)
	p.at = now
	if sleep := time.Duration((p.spent - frameBurst) / frameRate * float64(time.Second)); sleep >= leastSleep {
		return sleep
	}
	return 0
}

// left returns how many of the frames still count.
func (p *framePace) left(now time.Time) float64 {
	return max(0, p.spent-now.Sub(p.at).Seconds()*frameRate)
}

// free takes frames out of the count.
func (p *framePace) free(frames int) { p.spent = max(0, p.spent-float64(frames)) }

// isUnused reports whether the pace is nearly like a new one.
func (p *framePace) isUnused(now time.Time) bool { return p.left(now) < framesOfCall }

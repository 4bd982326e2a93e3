package look

import "time"

const (
	// leastPause is the shortest time between two looks.
	leastPause = 100 * time.Millisecond
	// share is the part of its time that an engine has waited for, by which a look may come late:
	// an engine that took 8 s to start is seen to be ready 1 s later at most.
	share = 8
	// rest is how many times as long as a look the pause after it is at least, so that looks take a
	// few hundredths of a core at most.
	rest = 30
)

// Pause is the time between two looks at an engine that has waited for so long, after a look that
// took some time: never more than interval, unless the look itself took long.
func Pause(waited, took, interval time.Duration) time.Duration {
	return max(min(waited/share, interval), leastPause, min(rest*took, time.Minute))
}

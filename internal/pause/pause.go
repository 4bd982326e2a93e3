// Package pause waits for a time that may be cut short.
package pause

import "time"

// For waits for so long, and is false if one of the channels is closed before; nil ones never are.
// Any goroutine may call it.
func For(d time.Duration, end, orEnd <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-end:
	case <-orEnd:
	}
	return false
}

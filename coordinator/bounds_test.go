package coordinator

import "time"

// What package auth bounds by default, as the tests of a whole coordinator count with it.
const (
	callerBytes                = 4 << 20 // of one caller's requests
	allAnswers, allHostAnswers = 256 << 20, 512 << 20
	namelessTime               = probeTime + 3*time.Second
	maxNameless, maxRefused    = 1024, 1024
	// These are of refused calls from one address that are written down, the rate a second.
	refusalBurst, refusalRate = 50, 2
)

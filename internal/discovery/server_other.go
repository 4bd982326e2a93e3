//go:build !linux

package discovery

// DialKnown dials with another dialer: only Linux tells which user's program answers.
func DialKnown(dial Dial) Dial { return dial }

//go:build !linux

package discovery

// DialKnown dials with another dialer: whose program answers is told by Linux alone.
func DialKnown(dial Dial) Dial { return dial }

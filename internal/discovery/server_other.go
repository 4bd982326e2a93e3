//go:build !linux

package discovery

import "net"

// DialKnown dials with another dialer: only Linux tells which user's program answers.
func DialKnown(dial Dial) Dial { return dial }

// checkSocket does nothing for the same reason.
func checkSocket(net.Conn, string) error { return nil }

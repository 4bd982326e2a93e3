//go:build !linux

package discovery

import "net"

// DialKnown dials with another dialer; only Linux reveals the user of the answering program.
func DialKnown(dial Dial) Dial { return dial }

// checkSocket does nothing for the same reason.
func checkSocket(net.Conn, string) error { return nil }

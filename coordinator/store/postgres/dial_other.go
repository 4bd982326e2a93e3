//go:build !linux

package postgres

import "syscall"

// limitSilence does nothing on other systems, which have only the keep-alive.
func limitSilence(string, string, syscall.RawConn) error { return nil }

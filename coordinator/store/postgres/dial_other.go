//go:build !linux

package postgres

import "syscall"

// limitSilence is left to the keep-alive elsewhere.
func limitSilence(string, string, syscall.RawConn) error { return nil }

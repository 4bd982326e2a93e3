package main

import (
	"testing"

	"github.com/bursar/bursar/test/proc"
)

// TestStopWhileTheDatabaseIsAwayIsLikeAnyOther: after a power cut an operator may stop a server
// that still waits for its database.
func TestStopWhileTheDatabaseIsAwayIsLikeAnyOther(t *testing.T) {
	nobody := proc.Address(t)
	s := startService(t, []string{
		"BURSAR_COORDINATOR_STORE=postgres://u@" + nobody + "/d?sslmode=disable", "BURSAR_COORDINATOR_ELECTION=alone",
	}, nil, "coordinator", "--listen", "127.0.0.1:0", "--log-format", "text")
	s.told.until("STATUS=starting; the store does not answer")
	s.stops()
	s.logged.until("stopped before it could start")
	for line := range s.logged.lines {
		t.Errorf("another line: %s", line)
	}
}

package agent_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A keeper runs as its engine's user, who can make it say anything: here that the engine is one
// that another allocation has.
func TestEngineOfAnotherAllocationIsNotLaunchedOnceMore(t *testing.T) {
	s := newLauncher(t)
	s.config.Engines.Keeper = filepath.Join(filepath.Dir(s.config.StateDir), "forged")
	if err := os.WriteFile(s.config.Engines.Keeper, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	_, cmd := s.engine(10, "sleep 1000")
	engine, err := s.meter.Identify(int32(cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	forged := fmt.Sprintf("#!/bin/sh\nread -r spec\necho '{\"pid\":%d,\"start_time\":%d}'\nexec >&-\nread -r confirmed\n", engine.PID, engine.StartTime)
	if err := errors.Join(os.WriteFile(s.config.Engines.Keeper, []byte(forged), 0o700), os.Chmod(s.config.Engines.Keeper, 0o755)); err != nil {
		t.Fatal(err)
	}
	a := s.allocate(10)
	_, err = s.launchAgain(&bursarv1.LaunchRequest{Id: a.GetId(), Command: []string{"sleep", "1000"}, WorkingDirectory: "/"})
	if connect.CodeOf(err) != connect.CodeInternal || !strings.Contains(err.Error(), "is the engine of allocation") {
		t.Errorf("got %v: want that it is refused", err)
	}
	s.coordinator.awaitState(a.GetId(), reserved)
}

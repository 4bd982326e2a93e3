package agent_test

import (
	"testing"

	"connectrpc.com/connect"
)

// While a Confirm is under way, its process is not to be had for another allocation. Once it was
// refused, it is.
func TestAProcessIsConfirmedForOneAllocationAtATime(t *testing.T) {
	s := run(t)
	pid := process(t, "exec sleep 1000").Process.Pid
	first, second := s.allocate(10).GetId(), s.allocate(10).GetId()
	entered, goOn := make(chan struct{}), make(chan struct{})
	s.coordinator.mu.Lock()
	s.coordinator.refuseConfirm = true
	s.coordinator.confirming = func(id string) {
		if id == first {
			entered <- struct{}{}
			<-goOn
		}
	}
	s.coordinator.mu.Unlock()
	for _, refused := range []bool{true, false} {
		s.coordinator.mu.Lock()
		s.coordinator.refuseConfirm = refused
		s.coordinator.mu.Unlock()
		ended := make(chan error, 1)
		go func() {
			_, err := s.confirm(first, pid)
			ended <- err
		}()
		<-entered
		if _, err := s.confirm(second, pid); connect.CodeOf(err) != connect.CodeFailedPrecondition || field(err) != "process.pid" {
			t.Errorf("the second allocation: %v", err)
		}
		goOn <- struct{}{}
		if err := <-ended; (err != nil) != refused {
			t.Errorf("the first allocation: %v", err)
		}
	}
	if _, err := s.confirm(second, pid); connect.CodeOf(err) != connect.CodeFailedPrecondition || field(err) != "process.pid" {
		t.Errorf("when it is an engine: %v", err)
	}
}

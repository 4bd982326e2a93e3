package engine

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// SignalError says why an engine got no signal.
type SignalError struct {
	ID, Why string
}

func (e *SignalError) Error() string {
	return fmt.Sprintf("allocation %s: %s: want an engine whose main process runs", e.ID, e.Why)
}

// Signal sends a signal to the main process of an engine, and to no other process. by names who
// wants it, for the log. The error is a *SignalError.
func (s *Engines) Signal(ctx context.Context, id string, signal bursarv1.Signal, by string) error {
	wanted, err := numberOf(signal)
	if err != nil {
		return &SignalError{id, err.Error()}
	}
	p, err := s.Reachable(id)
	if err != nil {
		return err
	}
	root := process.Ref{PID: p.GetPid(), StartTime: p.GetStartTime()}
	err = s.opener.Signal(root, p.Uid, wanted) //nolint:protogetter // nil says that it is not known
	if errors.Is(err, process.ErrEnded) {
		return &SignalError{id, fmt.Sprintf("its main process (pid %d) has ended", root.PID)}
	}
	if err != nil {
		return &SignalError{id, err.Error()}
	}
	s.log.InfoContext(ctx, "an engine was sent a signal", "audit", true, "order", "signal", "allocation_id", id, "pid", root.PID, "signal", signal.String(), "caller", by)
	return nil
}

// Reachable returns the process of an engine that this agent may signal and stop, as the agent
// itself has found it. The error, a *SignalError, says why it may not: no coordinator's word is
// enough.
func (s *Engines) Reachable(id string) (*bursarv1.Process, error) {
	held, ended, pid := false, false, int32(0)
	s.state.Locked(func(t *tracker.Tracker) {
		var grant *bursarv1.Allocation
		grant, held = t.Get(id)
		pid, ended = grant.GetProcess().GetPid(), t.Ended(id) != nil
	})
	p, known := s.ownProcess(id)
	switch {
	case ended:
		return nil, &SignalError{id, "its engine has ended"}
	case !held:
		return nil, &SignalError{id, "this host has no such engine"}
	case pid == 0:
		return nil, &SignalError{id, "the agent knows no process of it"}
	case !known:
		return nil, &SignalError{id, onlyHeardOf}
	case s.Launching(id): // its process waits: a signal would end it before it has begun
		return nil, &SignalError{id, "its engine has not begun yet"}
	}
	return p, nil
}

// numberOf is the system's number of a signal. Coordinators of a later version may know others.
func numberOf(signal bursarv1.Signal) (syscall.Signal, error) {
	switch signal {
	case bursarv1.Signal_SIGNAL_HUP:
		return syscall.SIGHUP, nil
	case bursarv1.Signal_SIGNAL_INT:
		return syscall.SIGINT, nil
	case bursarv1.Signal_SIGNAL_QUIT:
		return syscall.SIGQUIT, nil
	case bursarv1.Signal_SIGNAL_USR1:
		return syscall.SIGUSR1, nil
	case bursarv1.Signal_SIGNAL_USR2:
		return syscall.SIGUSR2, nil
	case bursarv1.Signal_SIGNAL_TERM:
		return syscall.SIGTERM, nil
	case bursarv1.Signal_SIGNAL_UNSPECIFIED:
	}
	return 0, fmt.Errorf("signal %d: want one of HUP, INT, QUIT, USR1, USR2 and TERM", signal)
}

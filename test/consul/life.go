package consul

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Kill ends the server at once, as a crash does, and waits for the end. It does nothing if the
// server does not run.
func (s *Server) Kill() {
	if s.process == nil || s.process.Process == nil {
		return
	}
	_ = s.process.Process.Kill() // it may have ended already
	<-s.ended
}

// Stop ends the server with SIGTERM, as an operator does, and waits for the end.
func (s *Server) Stop() error {
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", s.Node, err)
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-s.ended:
		return nil
	case <-late.C:
		s.Kill()
		return fmt.Errorf("stop %s: it took longer than %v", s.Node, patience)
	}
}

// Pause stops the server with all its connections open. When Pause returns, all threads have
// stopped.
func (s *Server) Pause() error {
	if err := s.process.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := unix.Waitid(unix.P_PID, s.process.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		return fmt.Errorf("wait until consul stands still: %w", err)
	}
	return nil
}

// Continue resumes a paused server.
func (s *Server) Continue() error { return s.process.Process.Signal(syscall.SIGCONT) }

// Restart starts the server again after Kill or Stop, with its old data and ports, and waits until
// it is ready.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.start(); err != nil {
		return err
	}
	return s.Ready(ctx)
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Start starts a stopped server, and waits until it answers. It does nothing if the server runs.
func (s *Server) Start(ctx context.Context) error {
	if s.process != nil {
		return nil
	}
	// The postmaster must outlive this call: Stop ends it, or the kernel.
	process := s.command(context.WithoutCancel(ctx), "postgres", "-D", s.data())
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	defer log.Close()
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = process.Wait()
	}()
	s.process, s.ended = process, ended
	return s.waitUntilUp(ctx)
}

func (s *Server) log() string { return filepath.Join(s.dir, "log") }

// Log returns the server's log since its launch.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (s *Server) waitUntilUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		connection, err := s.connect(ctx, "postgres")
		if err == nil {
			return connection.Close(ctx) //nolint:wrapcheck // cannot fail in a way that matters
		}
		select {
		case <-s.ended:
			s.process = nil
			return fmt.Errorf("postgres: the server ended when it was started:\n%s", s.Log())
		case <-ctx.Done():
			return fmt.Errorf("postgres: the server did not come up: %w\n%s", err, s.Log())
		case <-again.C:
		}
	}
}

// Stop ends the server by a signal and waits for it. SIGTERM waits for its clients, and SIGINT ends
// their sessions. After SIGQUIT it writes nothing more, and the next start replays the log.
func (s *Server) Stop(signal syscall.Signal) error {
	if s.process == nil {
		return nil
	}
	if err := s.process.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("postgres: %w", err)
	}
	return s.waitUntilGone()
}

// Kill kills all of the server's processes at once. That is like a power failure, except that the
// kernel keeps its caches.
func (s *Server) Kill() error {
	if s.process == nil {
		return nil
	}
	if err := s.signalAll(syscall.SIGKILL); err != nil {
		return err
	}
	return s.waitUntilGone()
}

// waitUntilGone waits for every process: the last one holds the cluster's shared memory, and
// prevents the next start.
func (s *Server) waitUntilGone() error {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	ended := s.ended
	for {
		select {
		case <-ended:
			pids, err := s.processes()
			if err != nil {
				return err
			}
			if len(pids) == 0 {
				s.process = nil
				return nil
			}
			ended = nil
		case <-again.C:
			if ended == nil {
				ended = s.ended
			}
		case <-limit.C:
			return fmt.Errorf("postgres: the server does not end:\n%s", s.Log())
		}
	}
}

// Restart stops the server like an administrator, which ends its clients' sessions, and starts it
// again.
func (s *Server) Restart(ctx context.Context) error {
	return errors.Join(s.Stop(syscall.SIGINT), s.Start(ctx))
}

// Pause stops all of the server's processes: connections stay open, and nothing answers.
func (s *Server) Pause() error { return s.signalAll(syscall.SIGSTOP) }

// Continue ends a Pause.
func (s *Server) Continue() error { return s.signalAll(syscall.SIGCONT) }

// signalAll signals every process of the server. It repeats until a round finds no new process.
func (s *Server) signalAll(signal syscall.Signal) error {
	seen := make(map[int]bool)
	for {
		pids, err := s.processes()
		if err != nil {
			return err
		}
		news := false
		for _, pid := range pids {
			if seen[pid] {
				continue
			}
			seen[pid], news = true, true
			if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("postgres: process %d: %w", pid, err)
			}
		}
		if !news {
			return nil
		}
	}
}

// processes returns the pids of the server: the working directory of each of its processes is its
// data directory.
func (s *Server) processes() ([]int, error) {
	data, err := filepath.EvalSymlinks(s.data())
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if cwd, err := os.Readlink("/proc/" + entry.Name() + "/cwd"); err == nil && cwd == data {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Backup copies a server's present data to a directory. It stops the server before, and starts it
// again.
func (s *Server) Backup(ctx context.Context, into string) error {
	if err := s.Stop(syscall.SIGINT); err != nil {
		return err
	}
	return errors.Join(copyTree(ctx, s.data(), into), s.Start(ctx))
}

// Restore restores the copy of Backup. All later changes are lost, as with an old backup.
func (s *Server) Restore(ctx context.Context, from string) error {
	if err := s.Stop(syscall.SIGINT); err != nil {
		return err
	}
	if err := os.RemoveAll(s.data()); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	return errors.Join(copyTree(ctx, from, s.data()), s.Start(ctx))
}

func copyTree(ctx context.Context, from, to string) error {
	if output, err := exec.CommandContext(ctx, "cp", "-a", from, to).CombinedOutput(); err != nil { //nolint:gosec // of the test
		return fmt.Errorf("copying %s to %s: %w: %s", from, to, err, strings.TrimSpace(string(output)))
	}
	return nil
}

// Close ends the server and removes its directory.
func (s *Server) Close() error {
	err := s.Continue()
	err = errors.Join(err, s.Stop(syscall.SIGQUIT))
	if s.guardian != nil {
		err = errors.Join(err, s.guardian.Dismiss())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Process is a program that runs until it is ended. It can be started again after its end.
type Process struct {
	// Name is for messages.
	Name string
	// Output is its output since its first start: both streams, except one that its command
	// redirects.
	Output *Output

	tb      testing.TB
	command func() *exec.Cmd
	cmd     *exec.Cmd
	ended   chan struct{} // closed when cmd was reaped
	err     error         // of the wait; read after ended
}

// New makes a process for Start, which calls command for a new command each time. At the end of the
// test the process is killed, the test fails if it printed a fault, and the end of its output is
// shown if the test has failed.
func New(tb testing.TB, name string, command func() *exec.Cmd) *Process {
	tb.Helper()
	p := &Process{Name: name, Output: &Output{}, tb: tb, command: command}
	tb.Cleanup(func() {
		p.Kill()
		p.CheckFaults()
		if text := p.Output.Tail(); tb.Failed() && text != "" {
			tb.Logf("%s printed:\n%s", p.Name, text)
		}
	})
	return p
}

// Start starts a command as a process, as New and Process.Start do. Its name is the program's, with
// the first argument.
func Start(tb testing.TB, cmd *exec.Cmd) *Process {
	tb.Helper()
	name := strings.Join(append([]string{filepath.Base(cmd.Args[0])}, cmd.Args[1:min(2, len(cmd.Args))]...), " ")
	p := New(tb, name, func() *exec.Cmd { return cmd })
	p.Start()
	return p
}

// Start starts the process, again if it has ended. It does not outlive this process, even if this
// one is killed.
func (p *Process) Start() {
	p.tb.Helper()
	cmd, ended := p.command(), make(chan struct{})
	if cmd.Stdout == nil {
		cmd.Stdout = p.Output
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.Output
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		p.tb.Fatalf("%s: %v", p.Name, err)
	}
	p.cmd, p.ended, p.err = cmd, ended, nil
	go func() {
		defer close(ended)
		p.err = cmd.Wait()
	}()
}

// PID returns the process's pid.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends the process a signal. The test fails if it has ended.
func (p *Process) Signal(s syscall.Signal) {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.tb.Fatalf("signal %s to %s: %v", s, p.Name, err)
	}
}

// SendKill sends the process SIGKILL and does not wait for its end. It may have ended before.
func (p *Process) SendKill() {
	if p.cmd == nil {
		return
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.tb.Errorf("kill %s: %v", p.Name, err)
	}
}

// Kill ends the process by SIGKILL and waits for its end. It may have ended before, or not been
// started.
func (p *Process) Kill() {
	p.SendKill()
	if p.cmd != nil {
		<-p.ended
	}
}

// Stop ends the process like an operator, by SIGTERM, and waits for its end. The test fails if that
// takes longer than within.
func (p *Process) Stop(within time.Duration) {
	p.tb.Helper()
	p.Signal(syscall.SIGTERM)
	p.await(within)
}

// Wait waits until the process ends by itself, and returns its exit code: see ExitCode. The test
// fails if that takes longer than within.
func (p *Process) Wait(within time.Duration) int {
	p.tb.Helper()
	p.await(within)
	return ExitCode(p.tb, p.err)
}

func (p *Process) await(within time.Duration) {
	p.tb.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		p.tb.Fatalf("%s has not ended within %s:\n%s", p.Name, within, p.Output.Tail())
	}
}

// Ended returns a channel that is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Err waits for the end of the process, and returns the error of its wait.
func (p *Process) Err() error {
	<-p.ended
	return p.err
}

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// CheckFaults fails the test without ending it if the process has printed a text that no Bursar
// server may ever print.
func (p *Process) CheckFaults() {
	p.tb.Helper()
	for _, fault := range p.Output.Faults() {
		p.tb.Errorf("%s: %s", p.Name, fault)
	}
}

// Alive reports whether a pid belongs to a running process, not a zombie.
func Alive(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(data), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

// Environment returns this process's environment without the variables that would redirect a bursar
// command, plus more.
func Environment(more ...string) []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !leads(variable) {
			kept = append(kept, variable)
		}
	}
	return append(kept, more...)
}

func leads(variable string) bool {
	for _, prefix := range []string{"BURSAR_", "CONSUL_", "PG", "XDG_"} {
		if strings.HasPrefix(variable, prefix) {
			return true
		}
	}
	return false
}

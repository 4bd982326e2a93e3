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

// Process is a program that goes on until it is ended. It can be started again after it ended.
type Process struct {
	// Name is for messages.
	Name string
	// Output is what it has printed since it was first started: on both streams, except one that
	// its command leads elsewhere.
	Output *Output

	tb      testing.TB
	command func() *exec.Cmd
	cmd     *exec.Cmd
	ended   chan struct{} // closed when cmd was waited for
	err     error         // of the wait; read after ended
}

// New makes a process that Start starts: command is asked for a new command each time. At the end
// of the test it is killed, the test fails if it printed a fault, and the end of what it printed
// is shown if the test has failed.
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

// Start starts a command as a process, as New and Process.Start do. Its name is the program's,
// with the first argument.
func Start(tb testing.TB, cmd *exec.Cmd) *Process {
	tb.Helper()
	name := strings.Join(append([]string{filepath.Base(cmd.Args[0])}, cmd.Args[1:min(2, len(cmd.Args))]...), " ")
	p := New(tb, name, func() *exec.Cmd { return cmd })
	p.Start()
	return p
}

// Start starts it, once more if it has ended. It does not outlive this process, even one that is
// killed.
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

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends it a signal. The test fails if it has ended.
func (p *Process) Signal(s syscall.Signal) {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.tb.Fatalf("signal %s to %s: %v", s, p.Name, err)
	}
}

// SendKill sends it SIGKILL and does not wait for its end. It may have ended before.
func (p *Process) SendKill() {
	if p.cmd == nil {
		return
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.tb.Errorf("kill %s: %v", p.Name, err)
	}
}

// Kill ends it by SIGKILL and waits until it is gone. It may have ended, or not been started.
func (p *Process) Kill() {
	p.SendKill()
	if p.cmd != nil {
		<-p.ended
	}
}

// Stop ends it as an operator does, by SIGTERM, and waits until it is gone. The test fails if that
// takes longer than within.
func (p *Process) Stop(within time.Duration) {
	p.tb.Helper()
	p.Signal(syscall.SIGTERM)
	p.await(within)
}

// Wait waits until it has ended by itself, and returns its exit code: see ExitCode. The test fails
// if that takes longer than within.
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

// Ended is closed when it has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Err is what waiting for it gave. It waits for that.
func (p *Process) Err() error {
	<-p.ended
	return p.err
}

// Running reports whether it has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// CheckFaults fails the test, and lets it go on, if it printed what no Bursar must ever print.
func (p *Process) CheckFaults() {
	p.tb.Helper()
	for _, fault := range p.Output.Faults() {
		p.tb.Errorf("%s: %s", p.Name, fault)
	}
}

// Alive reports whether a pid is that of a process that runs: not a zombie.
func Alive(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(data), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

// Environment is this process's, without what would lead a bursar elsewhere, and more.
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

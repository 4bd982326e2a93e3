package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a bursar that serves.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	output *output
	ended  chan struct{} // closed when it was waited for
	err    error         // of the wait; read after ended
}

// output gathers what a process prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// forget drops what was printed.
func (o *output) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = bytes.Buffer{}
}

// environment is this one's without what would lead bursar elsewhere.
func environment(more ...string) []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "BURSAR_") && !strings.HasPrefix(variable, "XDG_") {
			kept = append(kept, variable)
		}
	}
	return append(kept, more...)
}

// start starts a bursar. At the end of the test it is killed, and what it printed is shown where the test failed.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: args[0], cmd: exec.Command(executable, args...), output: &output{}, ended: make(chan struct{})}
	p.cmd.Env = environment()
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	// It must not outlive a test that is cut off.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		p.checkOutput()
	})
	return p
}

// checkFaults fails the test for what no bursar must ever print.
func (p *process) checkFaults() {
	p.t.Helper()
	text := p.output.String()
	for _, fault := range []string{"DATA RACE", "panic: ", "fatal error: ", "the ledger panicked", "the books are wrong"} {
		if strings.Contains(text, fault) {
			p.t.Errorf("bursar %s: %s", p.name, fault)
		}
	}
}

// checkOutput looks for that, and shows all of it where the test has failed.
func (p *process) checkOutput() {
	p.t.Helper()
	p.checkFaults()
	if text := p.output.String(); p.t.Failed() && text != "" {
		const most = 8 << 10
		if len(text) > most {
			text = "…" + text[len(text)-most:]
		}
		p.t.Logf("bursar %s (pid %d) printed:\n%s", p.name, p.cmd.Process.Pid, text)
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %s to bursar %s: %v", s, p.name, err)
	}
}

// freeze stops it, and waits until each of its threads has: one that still runs may answer.
func (p *process) freeze() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	eventually(p.t, upTime, "bursar "+p.name+" stands still", func() error {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.pid())) // the pattern is right
		if len(threads) == 0 {
			return errors.New("it has no threads")
		}
		for _, thread := range threads {
			data, err := os.ReadFile(thread)
			if _, after, _ := strings.Cut(string(data), ") "); err == nil && !strings.HasPrefix(after, "T") {
				return fmt.Errorf("a thread runs: %s", data)
			}
		}
		return nil
	})
}

// kill ends it by SIGKILL and waits until it is gone. Again is fine.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it has ended, then
	<-p.ended
}

// running reports whether it has not ended by itself.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// wait returns the exit code of a process that must end by itself.
func (p *process) wait(within time.Duration) int {
	p.t.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.ended:
		return exitCode(p.t, p.err)
	case <-timer.C:
		p.t.Fatalf("bursar %s has not ended within %s", p.name, within)
		return 0
	}
}

// result is what a command left.
type result struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

// commandTime bounds every command that must end by itself.
const commandTime = 60 * time.Second

// command runs bursar to its end. It may be called from any goroutine.
func command(t *testing.T, env []string, args ...string) result {
	t.Helper()
	return commandAs(t, nil, env, args...)
}

// commandAs does so as another user; nil: as this one.
func commandAs(t *testing.T, user *syscall.Credential, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, executable, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = environment(env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGABRT) } // it tells where it hangs
	cmd.WaitDelay = 5 * time.Second
	began := time.Now()
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Errorf("bursar %s: not done within %s\n%s", strings.Join(args, " "), commandTime, stderr.String())
		return result{code: -1}
	}
	return result{code: exitCode(t, err), stdout: stdout.String(), stderr: stderr.String(), took: time.Since(began)}
}

// expect fails the test unless the command ended with the code and printed each of these.
func (r result) expect(t *testing.T, code int, printed ...string) {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.stdout, r.stderr)
	}
	for _, text := range printed {
		if !strings.Contains(r.stdout+r.stderr, text) {
			t.Errorf("does not print %q\nstdout: %s\nstderr: %s", text, r.stdout, r.stderr)
		}
	}
}

// alive reports whether a pid is that of a process that runs: not a zombie.
func alive(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(data), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

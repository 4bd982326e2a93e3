package losses

import (
	"bytes"
	"context"
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

// process is a bursar that goes on until it is ended.
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

// start starts a program. At the end of the test it is killed, and what it printed is shown where the test failed.
func start(t *testing.T, env []string, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: filepath.Base(program) + " " + args[0], cmd: exec.Command(program, args...), output: &output{}, ended: make(chan struct{})}
	p.cmd.Env = environment(env...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.WaitDelay = time.Second // engines that hold its output are not waited for
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

// checkOutput fails the test for what no bursar must ever print.
func (p *process) checkOutput() {
	p.t.Helper()
	text := p.output.String()
	for _, fault := range []string{"panic: ", "fatal error: ", "the ledger panicked", "the books are wrong"} {
		if strings.Contains(text, fault) {
			p.t.Errorf("%s: %s", p.name, fault)
		}
	}
	if p.t.Failed() {
		const most = 6 << 10
		if len(text) > most {
			text = "…" + text[len(text)-most:]
		}
		p.t.Logf("%s (pid %d) printed:\n%s", p.name, p.cmd.Process.Pid, text)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %s to %s: %v", s, p.name, err)
	}
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
func (p *process) wait() int {
	p.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.ended:
		return exitCode(p.t, p.err)
	case <-timer.C:
		p.t.Fatalf("%s has not ended within %s", p.name, patience)
		return 0
	}
}

// result is what a command left.
type result struct {
	code           int
	stdout, stderr string
}

// command runs bursar to its end.
func command(t *testing.T, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "bursar"), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = environment(env...)
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("bursar %s: not done within %s\n%s", strings.Join(args, " "), patience, stderr.String())
	}
	return result{code: exitCode(t, err), stdout: stdout.String(), stderr: stderr.String()}
}

// expect fails the test unless the command ended well and printed each of these.
func (r result) expect(t *testing.T, printed ...string) {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("exit code %d\nstdout: %s\nstderr: %s", r.code, r.stdout, r.stderr)
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

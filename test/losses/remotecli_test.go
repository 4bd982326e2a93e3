package losses

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// shell is a user's shell on a machine that is no host.
type shell struct {
	p   *place
	env []string
}

// lockedBuffer is output that is read while it comes.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(data)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// shellCommand is a command line that runs.
type shellCommand struct {
	*exec.Cmd

	out, err lockedBuffer
}

// shellOf is the shell of alice.
func shellOf(p *place) *shell {
	environment := []string{"BURSAR_ADDR=" + p.address, "BURSAR_TOKEN_FILE=" + filepath.Join(p.dir, "alice.token"), "PATH=" + os.Getenv("PATH"), "HOME=/"}
	return &shell{p: p, env: environment}
}

func (s *shell) start(t *testing.T, args ...string) *shellCommand {
	t.Helper()
	c := &shellCommand{Cmd: exec.CommandContext(t.Context(), s.p.program, args...)}
	c.Env, c.Stdout, c.Stderr = s.env, &c.out, &c.err
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// end waits for the end of a command, and returns its code.
func (c *shellCommand) end(t *testing.T) int {
	t.Helper()
	err := c.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		t.Errorf("%v: %v", c.Args, err)
	}
	return 0
}

func (s *shell) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	c := s.start(t, args...)
	code = c.end(t)
	return code, c.out.String(), c.err.String()
}

// remotely is a command line that runs a script of sh on the host.
func remotely(script string, more ...string) []string {
	args := append([]string{"run", "--remote", "-m", "8MiB", "-c", "10m", "-l", "user=alice", "--wait", "1m", "--account", remoteAccount, "--dir", "/"}, more...)
	return append(args, "--", "/bin/sh", "-c", script)
}

func (c *shellCommand) await(t *testing.T, what string) {
	t.Helper()
	eventually(t, "the output has "+what, func() error {
		if !strings.Contains(c.out.String(), what) {
			return fmt.Errorf("%w: %q, %q", errNotYet, c.out.String(), c.err.String())
		}
		return nil
	})
}

// A command runs on a host as if it ran here: all of its output, its code, the signals.
func TestACommandOnAnotherHostSeemsToRunHere(t *testing.T) {
	t.Parallel()
	p, _ := startRemote(t, allowed)
	s := shellOf(p)
	random, copied := filepath.Join(p.dir, "out", "random"), filepath.Join(p.dir, "copy")
	code, stdout, stderr := s.run(t, remotely("head -c 10485760 /dev/urandom >"+random+"; cat "+random+"; echo words >&2; exit 7", "-o", copied, "--name", "random")...)
	want := sha256.Sum256([]byte(read(t, random)))
	if got := sha256.Sum256([]byte(stdout)); code != 7 || got != want || stderr != "words\n" {
		t.Errorf("code %d, %d bytes, equal: %v, said %q", code, len(stdout), got == want, stderr)
	}
	if got := sha256.Sum256([]byte(read(t, copied))); got != want {
		t.Error("the copy differs")
	}

	interrupted := s.start(t, remotely("trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.1; done")...)
	interrupted.await(t, "ready")
	if err := interrupted.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := interrupted.end(t); code != 5 || interrupted.out.String() != "ready\ncaught\n" {
		t.Errorf("interrupted: code %d, %q, %q", code, interrupted.out.String(), interrupted.err.String())
	}
	stubborn := s.start(t, remotely("trap '' INT; echo ready; while :; do sleep 0.1; done")...)
	stubborn.await(t, "ready")
	for range 2 {
		if err := stubborn.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the signal is told", func() error {
			if stubborn.err.String() == "" {
				return errNotYet
			}
			return nil
		})
	}
	if code := stubborn.end(t); code != 143 {
		t.Errorf("interrupted twice: code %d, %q", code, stubborn.err.String())
	}
}

// While the coordinator is killed, nothing of the output is lost or comes twice.
func TestOutputGoesOnAtItsByteAfterARestart(t *testing.T) {
	t.Parallel()
	p, _ := startRemote(t, allowed)
	s := shellOf(p)
	gate := filepath.Join(p.dir, "out", "gate")
	c := s.start(t, remotely("i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo line $i; echo err $i >&2; [ $i != 1000 ] || while [ ! -e "+gate+" ]; do sleep 0.05; done\n true; done; exit 3")...)
	c.await(t, "line 1000\n")
	p.coordinator.Signal(syscall.SIGKILL)
	<-p.coordinator.Ended()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.startCoordinator()
	code := c.end(t)
	var out, errs strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&out, "line %d\n", i+1)
		fmt.Fprintf(&errs, "err %d\n", i+1)
	}
	said := strings.Builder{}
	for line := range strings.Lines(c.err.String()) {
		if !strings.HasPrefix(line, "bursar: ") {
			said.WriteString(line)
		}
	}
	if code != 3 || c.out.String() != out.String() || said.String() != errs.String() {
		t.Errorf("code %d, %d of %d bytes, %d of %d bytes", code, len(c.out.String()), out.Len(), said.Len(), errs.Len())
	}
}

// A user submits, follows, waits, and finds out why an engine failed.
func TestAUserSubmitsAndFollows(t *testing.T) {
	t.Parallel()
	p, _ := startRemote(t, allowed)
	s := shellOf(p)
	submit := func(script string, more ...string) string {
		args := append([]string{"submit"}, remotely(script, more...)[2:]...)
		code, stdout, stderr := s.run(t, args...)
		if code != 0 || strings.Count(stdout, "\n") != 1 || stderr != "" {
			t.Fatalf("submit: code %d, %q, %q", code, stdout, stderr)
		}
		return strings.TrimSpace(stdout)
	}
	id := submit("echo out; echo why >&2; exit 4", "--name", "failing")
	if code, stdout, stderr := s.run(t, "wait", id); code != 4 || !strings.Contains(stdout, id) {
		t.Errorf("wait: code %d, %q, %q", code, stdout, stderr)
	}
	if code, stdout, stderr := s.run(t, "logs", id); code != 0 || stdout != "out\n" {
		t.Errorf("logs: code %d, %q, %q", code, stdout, stderr)
	}
	if code, stdout, stderr := s.run(t, "logs", "--stderr", id); code != 0 || stdout != "why\n" {
		t.Errorf("logs --stderr: code %d, %q, %q", code, stdout, stderr)
	}
	_, facts, _ := s.run(t, "allocations", id)
	for _, want := range []string{"failing", "sh as " + remoteAccount, "bursar logs " + id, "exit code 4", "why"} {
		if !strings.Contains(facts, want) {
			t.Errorf("%q is missing in\n%s", want, facts)
		}
	}
	var ids []string
	for range 10 {
		ids = append(ids, submit("while :; do sleep 0.1; done", "--name", "sweep"))
	}
	code, stdout, stderr := s.run(t, append([]string{"wait", "--for", "ready", "--timeout", "1m"}, ids...)...)
	if code != 0 || strings.Count(stdout, "active") != len(ids) {
		t.Errorf("wait --for ready: code %d, %q, %q", code, stdout, stderr)
	}
	if _, list, _ := s.run(t, "allocations", "--name", "sweep"); strings.Count(list, "sweep") != len(ids) || strings.Contains(list, "failing") {
		t.Errorf("allocations --name:\n%s", list)
	}
	if code, _, stderr := s.run(t, append([]string{"signal"}, ids...)...); code != 0 {
		t.Errorf("signal: code %d, %q", code, stderr)
	}
	if code, _, stderr := s.run(t, append([]string{"wait", "--timeout", "1m"}, ids...)...); code != 143 {
		t.Errorf("wait: code %d, %q", code, stderr)
	}
}

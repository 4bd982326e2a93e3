package keeper_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/test/proc"
)

// nobody is a user that owns nothing here.
const nobody = 65534

// program is the keeper's, built once.
var program string

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "keeper")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "bursar-keeper")
	build := proc.Build{Into: program, Packages: []string{"./cmd/bursar-keeper"}, Flags: []string{"-ldflags", "-s -w"}}
	if err := build.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// kept is a keeper that a test has started as an agent would.
type kept struct {
	t       *testing.T
	cmd     *exec.Cmd
	stdin   *os.File      // the agent's end; closed by confirm and abandon
	answers *os.File      // the agent's end
	stdout  *bufio.Reader // of answers
	record  string
	started keeper.Started
	engine  *proc.Held // once the keeper has started it
}

// folder is a directory that every user may enter; if this is root, the user nobody owns it.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kept") //nolint:usetesting // t.TempDir is for its owner alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// shell is a spec that runs a script.
func shell(t *testing.T, script string) keeper.Spec {
	t.Helper()
	return keeper.Spec{
		ID: "a1", Command: []string{"/bin/sh", "-c", script}, Environment: []string{"PATH=/usr/bin:/bin"}, WorkingDirectory: "/",
		Log: keeper.Log{Directory: folder(t), MaxBytes: 64 << 20, Keep: 3}, StderrLines: 5,
	}
}

// asNobody makes root start the keeper as another user, as an agent does.
func asNobody(cmd *exec.Cmd) {
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
}

// begin starts a keeper and hands it its spec.
func begin(t *testing.T, spec keeper.Spec, changes ...func(*exec.Cmd)) *kept {
	t.Helper()
	line, err := keeper.Encode(spec)
	if err != nil {
		t.Fatal(err)
	}
	k := launch(t, changes...)
	if _, err := k.stdin.Write(line); err != nil {
		t.Fatal(err)
	}
	k.hear()
	return k
}

// launch starts a keeper that has no spec yet.
func launch(t *testing.T, changes ...func(*exec.Cmd)) *kept {
	t.Helper()
	k := &kept{t: t, record: filepath.Join(t.TempDir(), "record")}
	record, err := os.OpenFile(k.record, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer record.Close()
	stdin, agentIn, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	agentOut, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	k.stdin, k.answers, k.stdout = agentIn, agentOut, bufio.NewReader(agentOut)
	k.cmd = exec.Command(program, "a1")
	k.cmd.Env, k.cmd.Dir = []string{"PATH=/usr/bin:/bin"}, "/"
	k.cmd.Stdin, k.cmd.Stdout, k.cmd.Stderr = stdin, stdout, record
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	asNobody(k.cmd)
	for _, change := range changes {
		change(k.cmd)
	}
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = agentIn.Close(), agentOut.Close()
		_ = k.cmd.Process.Kill()
		_ = k.cmd.Wait()
	})
	return k
}

// hear reads what the keeper answers.
func (k *kept) hear() {
	k.t.Helper()
	line, err := k.stdout.ReadBytes('\n')
	if err != nil {
		k.t.Fatalf("the keeper says %q: %v", line, err)
	}
	if k.started, err = keeper.DecodeStarted(line); err != nil {
		k.t.Fatal(err)
	}
	if k.started.PID > 0 {
		k.engine = proc.KillGroupAtEnd(k.t, int(k.started.PID))
	}
	if rest, err := io.ReadAll(k.stdout); err != nil || len(rest) > 0 {
		k.t.Errorf("the keeper goes on with %q, %v", rest, err)
	}
}

// run starts an engine that must start, and lets it go on.
func run(t *testing.T, spec keeper.Spec, changes ...func(*exec.Cmd)) *kept {
	t.Helper()
	k := begin(t, spec, changes...)
	if k.started.Error != "" {
		t.Fatalf("not started: %+v", k.started)
	}
	k.confirm()
	return k
}

func (k *kept) confirm() {
	k.t.Helper()
	if _, err := k.stdin.WriteString(keeper.Confirmed + "\n"); err != nil {
		k.t.Error(err)
	}
	k.abandon()
}

func (k *kept) abandon() { _ = k.stdin.Close() }

// end waits until the keeper has ended and returns its record.
func (k *kept) end() keeper.Record {
	k.t.Helper()
	k.await()
	content, err := os.ReadFile(k.record)
	if err != nil {
		k.t.Fatal(err)
	}
	record, err := keeper.DecodeRecord(content)
	if err != nil {
		k.t.Fatalf("%v in %q", err, content)
	}
	return record
}

func (k *kept) await() {
	k.t.Helper()
	if err := k.cmd.Wait(); err != nil {
		k.t.Errorf("the keeper: %v", err)
	}
}

// said is what is in a log file.
func said(t *testing.T, spec keeper.Spec, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(spec.Log.Directory, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(content)
}

// status reads a field of /proc/PID/status.
func status(t *testing.T, pid int, field string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, field+":"); found {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("no field %s", field)
	return ""
}

// lines follows a FIFO in a spec's folder that the engine writes to.
func lines(t *testing.T, spec keeper.Spec) (name string, next func() string) {
	t.Helper()
	name = filepath.Join(spec.Log.Directory, "said")
	if err := syscall.Mkfifo(name, 0o622); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o622); err != nil { // whatever the umask
		t.Fatal(err)
	}
	file, err := os.OpenFile(name, os.O_RDWR, 0) // both, so that opening waits for no reader
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	reader := bufio.NewReader(file)
	return name, func() string {
		t.Helper()
		if err := file.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		line, err := reader.ReadString('\n')
		if err != nil {
			t.Fatalf("the engine says nothing: %v", err)
		}
		return strings.TrimSuffix(line, "\n")
	}
}

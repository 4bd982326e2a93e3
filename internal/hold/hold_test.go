package hold

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	Wait() // this test binary is also the waiting program
	os.Exit(m.Run())
}

// held starts a command in the held state.
func held(t *testing.T, cmd *exec.Cmd) *Gate {
	t.Helper()
	gate, err := New(cmd.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gate.Abandon)
	cmd.Env = gate.Environment(cmd.Environ(), 3)
	cmd.ExtraFiles = gate.Files()
	cmd.Path = Self
	err = cmd.Start()
	gate.Started()
	if err != nil {
		t.Fatal(err)
	}
	return gate
}

func TestACommandBeginsWhenItIsLetGo(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	cmd := exec.Command("sh", "-c", `echo "$0 $1 $$" >`+mark+`; env | grep -c HELD; ls /proc/self/fd | wc -l; exit 7`, "name", "argument")
	var out strings.Builder
	cmd.Stdout = &out
	gate := held(t, cmd)
	if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("it has begun: %v", err)
	}
	if err := gate.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	var ended *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != 7 {
		t.Errorf("it ended with %v, not with code 7", err)
	}
	if said, err := os.ReadFile(mark); err != nil || !strings.HasPrefix(string(said), "name argument ") {
		t.Errorf("it was given %q, %v", said, err)
	}
	bare, err := exec.Command("sh", "-c", "ls /proc/self/fd | wc -l").Output()
	if want := "0\n" + string(bare); err != nil || out.String() != want {
		t.Errorf("it has files or variables of the gate: %q, want %q, %v", out.String(), want, err)
	}
}

func TestACommandThatIsNotLetGoNeverBegins(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	cmd := exec.Command("touch", mark)
	held(t, cmd).Abandon()
	var ended *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != exitUnbegun {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has begun: %v", err)
	}
}

func TestWhatCannotBeExecutedIsSaid(t *testing.T) {
	dir := t.TempDir()
	odd := filepath.Join(dir, "odd")
	if err := os.WriteFile(odd, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		filepath.Join(dir, "none"): syscall.ENOENT, dir: syscall.EACCES, odd: syscall.ENOEXEC,
	} {
		cmd := &exec.Cmd{Path: path, Args: []string{path}}
		if err := held(t, cmd).Release(t.Context()); !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want %v", path, err, want)
		}
		_ = cmd.Wait() // the exit status tells nothing more
	}
}

func TestAProcessThatEndsWhileItWaitsIsNoError(t *testing.T) {
	cmd := exec.Command("true")
	gate := held(t, cmd)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if err := gate.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAStoppedProcessIsNotWaitedForWithoutEnd(t *testing.T) {
	cmd := exec.Command("true")
	gate := held(t, cmd)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := gate.Release(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want the end of the context", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
}

// The variable may have another origin.
func TestAVariableWithoutPipesIsNone(t *testing.T) {
	for _, text := range []string{"", "1", "1,2", "3,4,", "x,y,/bin/true", "-1,-1,/bin/true", "4000,4001,/bin/true", "9999999999999999999,0,/bin/true"} {
		if _, _, _, is := parse(text); is {
			t.Errorf("%q makes a process wait", text)
		}
	}
}

// The starter may have a variable of the gate's name in its environment.
func TestTheGatesVariableWins(t *testing.T) {
	gate, err := New("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Abandon()
	defer gate.Started()
	got := gate.Environment([]string{"A=b", variable + "=0,1,/usr/bin/id"}, 3)
	if want := []string{"A=b", variable + "=3,4,/bin/true"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

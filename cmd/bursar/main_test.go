package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bursar": main})
}

// patience is how long a script waits for what must come.
const patience = 30 * time.Second

// TestScripts runs testdata/*.txtar against real servers and real processes. Beside testscript's own commands there are
//
//	dev [-quotas FILE]…      start `bursar dev` on a free port with a store in $WORK/dev, and wait until it is up
//	enddev SIGNAL            end it by a signal and wait for it
//	code N COMMAND…          run a command that ends with exit code N; stdout and stderr check what it printed
//	until REGEXP COMMAND…    run a command again and again until its output matches
//	setenv NAME REGEXP       set NAME to what the first group of the pattern matches in stdout
//	signal SIGNAL PIDVAR     send a signal to the process in an environment variable
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_RUNTIME_DIR", filepath.Join(env.WorkDir, "run"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("BURSAR_ADDR", "127.0.0.1:1") // nobody's
			env.Setenv("BURSAR_AGENT", filepath.Join(env.WorkDir, "no.sock"))
			env.Setenv("USER", "alice")
			env.Values[devKey{}] = new(*exec.Cmd)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"dev": startDev, "enddev": endDev, "code": expectCode, "until": runUntil, "setenv": setEnv, "signal": sendSignal,
		},
	})
}

type devKey struct{}

func devOf(ts *testscript.TestScript) **exec.Cmd {
	cmd, _ := ts.Value(devKey{}).(**exec.Cmd)
	return cmd
}

func startDev(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("dev: cannot fail")
	}
	// Not in $WORK: the path of a socket has at most 107 bytes.
	sockets, err := os.MkdirTemp("", "bursar")
	ts.Check(err)
	ts.Defer(func() { _ = os.RemoveAll(sockets) })
	socket := filepath.Join(sockets, "agent.sock")
	path, err := exec.LookPath("bursar")
	ts.Check(err)
	cmd := exec.Command(path, append([]string{
		"dev", "--listen", "127.0.0.1:0", "--data-dir", ts.MkAbs("dev"), "--agent-socket", socket, "--log-level", "error",
	}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+ts.Getenv("XDG_RUNTIME_DIR"), "XDG_STATE_HOME="+ts.Getenv("XDG_STATE_HOME"))
	cmd.Stderr = ts.Stderr()
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	*devOf(ts) = cmd
	ts.Defer(func() { stopDev(ts, syscall.SIGKILL) })

	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if address, found := strings.CutPrefix(strings.TrimSpace(lines.Text()), "coordinator "); found {
			ts.Setenv("BURSAR_ADDR", strings.TrimSpace(address))
		}
		if strings.HasPrefix(lines.Text(), "in another terminal") {
			ts.Setenv("BURSAR_AGENT", socket)
			ts.Setenv("DEV", strconv.Itoa(cmd.Process.Pid))
			go func() {
				for lines.Scan() {
				}
			}()
			return
		}
	}
	ts.Fatalf("dev: did not come up: %v", cmd.Wait())
}

// stopDev returns the exit code, -1 where there was none.
func stopDev(ts *testscript.TestScript, sig syscall.Signal) int {
	cmd := devOf(ts)
	if *cmd == nil {
		return -1
	}
	_ = (*cmd).Process.Signal(sig)
	_ = (*cmd).Wait()
	code := (*cmd).ProcessState.ExitCode()
	*cmd = nil
	return code
}

func endDev(ts *testscript.TestScript, _ bool, args []string) {
	code := stopDev(ts, signalNamed(ts, args[0]))
	if code != 0 && args[0] != "KILL" {
		ts.Fatalf("dev ended with code %d", code)
	}
}

func signalNamed(ts *testscript.TestScript, name string) syscall.Signal {
	known := map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1,
		"USR2": syscall.SIGUSR2, "QUIT": syscall.SIGQUIT, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
	}
	sig, found := known[name]
	if !found {
		ts.Fatalf("unknown signal %s", name)
	}
	return sig
}

func expectCode(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("ended with code %d, want %d", got, want)
	}
}

func runUntil(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[0])
	deadline := time.After(patience)
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for {
		_ = ts.Exec(args[1], args[2:]...)
		if pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		select {
		case <-pause.C:
		case <-deadline:
			ts.Fatalf("%q did not come", args[0])
		}
	}
}

func setEnv(ts *testscript.TestScript, _ bool, args []string) {
	found := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if found == nil {
		ts.Fatalf("no %q in the output", args[1])
	}
	ts.Setenv(args[0], found[1])
}

func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.Getenv(args[1])))
	if err != nil || pid <= 1 {
		ts.Fatalf("signal: %s is %q", args[1], ts.Getenv(args[1]))
	}
	if err := syscall.Kill(pid, signalNamed(ts, args[0])); err != nil {
		ts.Fatalf("signal: %v", fmt.Errorf("%d: %w", pid, err))
	}
}

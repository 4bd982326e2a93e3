package keeper_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/test/proc"
)

func TestEngineIsKeptUntilItsEndIsWrittenDown(t *testing.T) {
	spec := shell(t, `echo out; echo one >&2; echo two >&2; printf three >&2; exit 3`)
	before := time.Now()
	record := run(t, spec).end()
	if record.Time.Before(before) || record.Time.After(time.Now()) {
		t.Errorf("ended at %v", record.Time)
	}
	if used := record.Use.CPUTime(); used <= 0 || used > time.Minute {
		t.Errorf("used %s of processor time", used)
	}
	record.Time, record.Use = time.Time{}, keeper.Use{}
	want := keeper.Record{Exit: keeper.Exit{Code: new(int32(3))}, Stderr: []string{"one", "two", "three"}}
	if diff := cmp.Diff(want, record); diff != "" {
		t.Error(diff)
	}
	if got := said(t, spec, "stdout"); got != "out\n" {
		t.Errorf("stdout: %q", got)
	}
	if got := said(t, spec, "stderr"); got != "one\ntwo\nthree" {
		t.Errorf("stderr: %q", got)
	}
}

// The mark is that of the largest process that the engine has waited for.
func TestTheMostMemoryOfAnEngineIsWrittenDown(t *testing.T) {
	const mib = 1 << 20
	record := run(t, shell(t, `head -c 400000000 /dev/zero | tail -c 399999999 > /dev/null`)).end()
	if got := record.Use.ProcessBytes; got < 380*mib || got > 430*mib {
		t.Errorf("%d MiB, want 382 and a little: %+v", got/mib, record)
	}
}

func TestEndBySignalIsWrittenDownAsIt(t *testing.T) {
	for _, signal := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGKILL, unix.SIGSEGV, unix.SIGPIPE, unix.SIGTERM, unix.SIGUSR1, 40, 64} {
		t.Run(strconv.Itoa(int(signal)), func(t *testing.T) {
			k := run(t, shell(t, "exec sleep 1000"))
			if err := k.engine.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if got := k.end().Exit; got.Signal != int32(signal) || got.Code != nil {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestKeeperIgnoresSignalsThatEndOthers(t *testing.T) {
	spec := shell(t, "")
	fifo, next := lines(t, spec)
	spec.Command[2] = "echo up > " + fifo + "; read x < " + fifo + "2; echo done; exit 7"
	if err := syscall.Mkfifo(fifo+"2", 0o644); err != nil {
		t.Fatal(err)
	}
	k := run(t, spec)
	next()
	for _, signal := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGPIPE, unix.SIGQUIT, unix.SIGTSTP, unix.SIGUSR1, unix.SIGALRM, unix.SIGXFSZ} {
		if err := k.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(fifo+"2", []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := k.end().Exit.Code; got == nil || *got != 7 {
		t.Errorf("exit code %v", got)
	}
	if got := said(t, spec, "stdout"); got != "done\n" {
		t.Errorf("stdout: %q", got)
	}
}

// What the keeper itself was started with must not reach the engine: ignored and blocked signals,
// descriptors, a mask, a terminal.
func TestEngineBeginsClean(t *testing.T) {
	spec := shell(t, `sed -nE '/^(Sig(Blk|Ign|Cgt)|CapAmb|CapInh|NoNewPrivs|Groups):/p' /proc/self/status
ls -x /proc/$$/fd; echo umask $(umask); echo nofile $(ulimit -n); echo core $(ulimit -c); echo pwd $(pwd); echo tty $(cut -d ' ' -f 7 /proc/$$/stat); readlink /proc/$$/fd/0
echo session $(cut -d ' ' -f 6 /proc/$$/stat) $$; echo env; env | grep -vE '^(PWD|SHLVL|_|OLDPWD)=' | sort`)
	spec.Environment = []string{"PATH=/usr/bin:/bin", "A=b c", "EMPTY=", "WIDE=ö\nx"}
	spec.WorkingDirectory = "/usr"
	leaked, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer leaked.Close()
	run(t, spec, func(cmd *exec.Cmd) {
		cmd.Args = []string{"sh", "-c", `trap '' HUP INT TERM USR1 TSTP CHLD PIPE; umask 077; exec "$0" a1`, program}
		cmd.Path = "/bin/sh"
		cmd.ExtraFiles = []*os.File{leaked, leaked}
	}).end()
	got := said(t, spec, "stdout")
	var hard syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_NOFILE, &hard); err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(between(got, "session ", " "))
	want := fmt.Sprintf(`Groups:	
SigBlk:	0000000000000000
SigIgn:	0000000000000000
SigCgt:	0000000000000000
CapInh:	0000000000000000
CapAmb:	0000000000000000
NoNewPrivs:	0
0  1  2
umask 0022
nofile %d
core 0
pwd /usr
tty 0
/dev/null
session %s %s
env
A=b c
EMPTY=
PATH=/usr/bin:/bin
WIDE=ö
x
`, min(hard.Max, 65536), pid, pid)
	clean := func(text string) string {
		// who runs the tests may have groups, which a keeper of the same user keeps
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "Groups:") {
				lines[i] = "Groups:\t"
			}
		}
		return strings.Join(lines, "\n")
	}
	if os.Geteuid() == 0 {
		clean = func(text string) string { return strings.ReplaceAll(text, "Groups:\t ", "Groups:\t") }
	}
	// Signal 32 is the C library's own, which Go leaves as it is; where these tests run under
	// make, go test has it ignored.
	got = strings.Replace(got, "SigIgn:\t0000000080000000", "SigIgn:\t0000000000000000", 1)
	if diff := cmp.Diff(want, clean(got)); diff != "" {
		t.Error(diff)
	}
}

func between(text, before, after string) string {
	_, text, _ = strings.Cut(text, before)
	text, _, _ = strings.Cut(text, after)
	return text
}

func TestKeeperIsOutOfReachOfItsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("want root, to be somebody else than the engine's user")
	}
	k := run(t, shell(t, "exec sleep 1000"))
	var stat syscall.Stat_t
	if err := syscall.Stat(fmt.Sprintf("/proc/%d/mem", k.cmd.Process.Pid), &stat); err != nil || stat.Uid != 0 {
		t.Errorf("the keeper's memory is uid %d's, %v: want root's", stat.Uid, err)
	}
	if err := syscall.Stat(fmt.Sprintf("/proc/%d/mem", k.started.PID), &stat); err != nil || stat.Uid != nobody {
		t.Errorf("the engine's memory is uid %d's, %v: want its user's", stat.Uid, err)
	}
}

func TestEngineThatEndsAtOnceKeepsItsPidUntilTheAgentHasDecided(t *testing.T) {
	spec := shell(t, "echo gone >&2; exit 9")
	k := begin(t, spec)
	pid := int(k.started.PID)
	for deadline := time.Now().Add(20 * time.Second); !strings.HasPrefix(status(t, pid, "State"), "Z"); {
		if time.Now().After(deadline) {
			t.Fatal("the engine does not end")
		}
	}
	if content, err := os.ReadFile(k.record); err != nil || len(content) > 0 {
		t.Errorf("record %q, %v", content, err)
	}
	k.confirm()
	if got := k.end(); got.Exit.Code == nil || *got.Exit.Code != 9 {
		t.Errorf("%+v", got)
	}
}

func TestEngineThatNobodyKnowsOfIsEnded(t *testing.T) {
	for name, script := range map[string]string{
		"by SIGTERM":                     "trap 'echo bye; exit 0' TERM; echo up > $FIFO; sleep 1000 & wait",
		"with what it has left behind":   "trap 'echo bye; exit 0' TERM; (trap '' TERM; echo up > $FIFO; sleep 1000) & wait",
		"by SIGKILL where it ignores it": "echo bye; trap '' TERM; echo up > $FIFO; while :; do sleep 1000; done",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := shell(t, script)
			fifo, next := lines(t, spec)
			spec.Environment = append(spec.Environment, "FIFO="+fifo)
			k := begin(t, spec)
			next()
			k.abandon()
			k.await()
			groupEnds(t, int(k.started.PID))
			if content, err := os.ReadFile(k.record); err != nil || len(content) > 0 {
				t.Errorf("record %q, %v", content, err)
			}
			if got := said(t, spec, "stdout"); got != "bye\n" {
				t.Errorf("stdout: %q", got)
			}
		})
	}
}

// The keeper ended the process group alone.
func TestWhatAnEngineThatNobodyKnowsOfHasStartedIsEnded(t *testing.T) {
	const waits = `sh -c "trap : TERM; echo \$\$ > $FIFO; while :; do sleep 1; done"`
	const group = `perl -e "setpgrp; exec @ARGV" `
	for name, script := range map[string]string{
		"in a session of its own":           "setsid " + waits + " & trap 'exit 0' TERM; sleep 1000 & wait",
		"of an engine that ignores SIGTERM": "setsid " + waits + " & trap '' TERM; while :; do sleep 1; done",
		"below one in a session of its own": "setsid sh -c '" + waits + " & wait' & trap 'exit 0' TERM; sleep 1000 & wait",
		"in a group of its own":             group + waits + " & trap 'exit 0' TERM; sleep 1000 & wait",
		"a daemon in the engine's session":  "(" + group + waits + " &) & trap 'exit 0' TERM; sleep 1000 & wait",
		"of an engine that has ended":       group + waits + " & exit 0",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := shell(t, script)
			fifo, next := lines(t, spec)
			spec.Environment = append(spec.Environment, "FIFO="+fifo)
			k := begin(t, spec)
			left := proc.HoldText(t, next())
			t.Cleanup(func() { _ = left.Signal(syscall.SIGKILL) })
			k.abandon()
			k.await()
			if proc.Alive(left.PID) {
				t.Error("what it has started goes on")
			}
		})
	}
}

// groupEnds waits until nothing runs in a process group. What has ended is a zombie until its new
// parent looks.
func groupEnds(t *testing.T, group int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for running := true; running; {
		if time.Now().After(deadline) {
			t.Fatal("something of its group is left")
		}
		running = false
		stats, err := filepath.Glob("/proc/[0-9]*/stat")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range stats {
			text, _ := os.ReadFile(name) // it may be gone
			fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
			running = running || len(fields) > 2 && fields[0] != "Z" && fields[2] == strconv.Itoa(group)
		}
	}
}

func TestWhatTheAgentSaysOtherThanConfirmedEndsTheEngine(t *testing.T) {
	for _, line := range []string{"confirm\n", "confirmed", "\n", strings.Repeat("x", 100) + "\n"} {
		k := begin(t, shell(t, "exec sleep 1000"))
		if _, err := k.stdin.WriteString(line); err != nil {
			t.Fatal(err)
		}
		k.abandon()
		k.await()
		if content, _ := os.ReadFile(k.record); len(content) > 0 {
			t.Errorf("%q: record %q", line, content)
		}
	}
}

func TestKeeperWithoutAnAgentStartsNothing(t *testing.T) {
	for name, input := range map[string]string{
		"nothing": "", "half a spec": `{"id":"a1","comm`, "no spec": "hello\n", "an empty one": "{}\n", "too much": strings.Repeat(" ", 9<<20),
	} {
		t.Run(name, func(t *testing.T) {
			k := launch(t)
			_, _ = k.stdin.WriteString(input) // it may end before it has read all
			k.abandon()
			k.hear()
			if k.started.Error == "" {
				t.Errorf("%+v", k.started)
			}
			if err := k.cmd.Wait(); k.cmd.ProcessState.ExitCode() != 1 {
				t.Errorf("%v", err)
			}
		})
	}
}

// An agent may have ended between handing over what is to be started and the start.
func TestKeeperOfAnAgentThatHasEndedStartsNothing(t *testing.T) {
	begun := filepath.Join(folder(t), "begun")
	line, err := keeper.Encode(shell(t, ": >"+begun))
	if err != nil {
		t.Fatal(err)
	}
	k := launch(t)
	if err := k.answers.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := k.stdin.Write(line); err != nil {
		t.Fatal(err)
	}
	k.abandon()
	if err := k.cmd.Wait(); k.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the keeper: %v", err)
	}
	if _, err := os.Stat(begun); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has started: %v", err)
	}
}

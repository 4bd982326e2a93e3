package ready_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/ready"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

const soon = 30 * time.Second

// limited makes one look end after half a second.
func limited(r *launch.Request) { r.Look.Limit = 500 * time.Millisecond }

func TestAFileIsReady(t *testing.T) {
	for name, test := range map[string]struct {
		script string // makes it
		file   string
		ready  bool
	}{
		"a file":              {"touch it", "it", true},
		"a folder":            {"mkdir it", "it", true},
		"a FIFO":              {"mkfifo it", "it", true},
		"a link":              {"ln -s /etc/passwd it", "it", true},
		"a link to nothing":   {"ln -s none it", "it", false},
		"a link to itself":    {"ln -s ./it it", "it", false},
		"not there":           {"true", "it", false},
		"below a file":        {"touch it", "it/below", false},
		"above the directory": {"touch it", "../$NAME/it", true},
		"absolute":            {"true", "/dev/null", true},
		"no rights":           {"mkdir it; chmod 0 it", "it/below", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t)
			fifo := a.fifo()
			spec := ready.Spec{File: test.file, Within: soon}
			if !test.ready {
				spec.Within = time.Second
			}
			e := a.launch(test.script+"; read x < "+fifo, spec, func(r *launch.Request) {
				r.Look.File = strings.ReplaceAll(r.Look.File, "$NAME", filepath.Base(r.WorkingDirectory))
			})
			got := e.result(e.watch())
			if (got.Phase == bursarv1.Phase_PHASE_READY) != test.ready {
				t.Errorf("%+v", got)
			}
			if !test.ready && !strings.HasPrefix(got.Reason, "not ready within 1s: ") {
				t.Errorf("%+v", got)
			}
		})
	}
}

// The file is there only for the engine's user, and the helper is that user.
func TestAHelperIsTheEnginesUser(t *testing.T) {
	a := newAgent(t)
	e := a.launch("exec sleep 1000", ready.Spec{File: "none", Within: soon})
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.helper()))
	if err != nil {
		t.Fatal(err)
	}
	uids := fmt.Sprintf("Uid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", a.user.UID)
	if !strings.Contains(string(status), uids) || !strings.Contains(string(status), "CapEff:\t0000000000000000\n") && a.user.UID != 0 {
		t.Errorf("%s", status)
	}
}

func TestALineIsReady(t *testing.T) {
	both := ready.Line{Pattern: `^Started on port \d+$`}
	for name, test := range map[string]struct {
		script string
		line   ready.Line
		ready  bool
	}{
		"on stdout":                        {"echo Started on port 80", both, true},
		"on stderr":                        {"echo Started on port 80 >&2", both, true},
		"on the other stream":              {"echo Started on port 80 >&2", ready.Line{Pattern: both.Pattern, Stream: ready.Stdout}, false},
		"in two parts":                     {"printf 'Started on '; read x < $FIFO; echo port 80", both, true},
		"without a line break":             {"printf 'Started on port 80'", both, true},
		"with a carriage return":           {`printf 'Started on port 80\r\n'`, both, true},
		"part of another line":             {"echo not Started on port 80", both, false},
		"across two lines":                 {`printf 'Started on\nport 80\n'`, both, false},
		"binary before it":                 {`head -c 100000 /dev/urandom; printf '\n\000\377\nStarted on port 80\n'; head -c 1000 /dev/urandom`, both, true},
		"bytes that are no text":           {`printf '\377\376x\n'`, ready.Line{Pattern: `x$`}, true},
		"at the end of 1 MiB":              {`head -c 1048576 /dev/zero | tr '\0' a; echo END`, ready.Line{Pattern: "aEND$"}, true},
		"the beginning of 1 MiB":           {`head -c 1048576 /dev/zero | tr '\0' a; echo END`, ready.Line{Pattern: "^a.*END$"}, false},
		"after 8 MiB in a burst":           {`head -c 8388608 /dev/zero | tr '\0' '\n'; echo Started on port 80`, both, true},
		"an empty line":                    {"echo", ready.Line{Pattern: "^$"}, true},
		"no output is no line":             {"true", ready.Line{Pattern: "^$"}, false},
		"a pattern that a naive one hangs": {"head -c 60000 /dev/zero | tr '\\0' a; echo", ready.Line{Pattern: "(a*)*(a*)*b"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t)
			fifo := a.fifo()
			spec := ready.Spec{Line: &test.line, Within: soon}
			if !test.ready {
				spec.Within = 1500 * time.Millisecond
			}
			e := a.launch("export FIFO="+fifo+"; "+test.script+"; exec sleep 1000", spec)
			results := e.watch()
			if strings.Contains(test.script, "FIFO") {
				e.reason("no line matches")
				a.say(fifo)
			}
			if got := e.result(results); (got.Phase == bursarv1.Phase_PHASE_READY) != test.ready {
				t.Errorf("%+v", got)
			}
		})
	}
}

// The keeper renames a file that is full.
func TestALineInFilesThatAreReplaced(t *testing.T) {
	for name, keep := range map[string]int32{"kept": 3, "removed": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t)
			fifo := a.fifo()
			e := a.launch("seq 1 100; read x < "+fifo+"; seq 101 1000; exec sleep 1000", ready.Spec{Line: &ready.Line{Pattern: "^777$"}, Within: soon},
				func(r *launch.Request) { r.Logs.MaxBytes, r.Logs.Keep = 2000, &keep })
			results := e.watch()
			e.reason("no line matches")
			a.say(fifo)
			// If no file is kept, the line may be gone before the next look.
			if got := e.result(results); got.Phase != bursarv1.Phase_PHASE_READY && keep > 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Engines with a folder of their own for logs go on in the files of the one before.
func TestALineOfAnEarlierEngineIsNotReady(t *testing.T) {
	for name, files := range map[string][]string{"in the file": {"stdout"}, "in the file before": {"stdout.1"}, "in both": {"stdout", "stdout.1"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t)
			logs, fifo := a.folder(), a.fifo()
			for _, file := range files {
				path := filepath.Join(logs, file)
				if err := errors.Join(os.WriteFile(path, []byte("old\nStarted\n"), 0o600), os.Chown(path, int(a.user.UID), int(a.user.GID))); err != nil {
					t.Fatal(err)
				}
			}
			e := a.launch("read x < "+fifo+"; echo Started; exec sleep 1000", ready.Spec{Line: &ready.Line{Pattern: "^Started$"}, Within: soon},
				func(r *launch.Request) { r.Logs.Directory = logs })
			e.reason("no line matches")
			results := e.watch()
			a.say(fifo)
			if got := e.result(results); got.Phase != bursarv1.Phase_PHASE_READY {
				t.Errorf("%+v", got)
			}
		})
	}
}

// The user of the engine owns the folder of its output.
func TestOutputThatIsNoFile(t *testing.T) {
	for name, script := range map[string]string{
		"a link": "ln -sf /etc/passwd $LOGS/stdout", "a FIFO": "rm $LOGS/stdout; mkfifo $LOGS/stdout", "a folder": "rm $LOGS/stdout; mkdir $LOGS/stdout",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t)
			logs := a.folder()
			fifo := a.fifo()
			e := a.launch("LOGS="+logs+"; "+script+"; touch done; read x < "+fifo, ready.Spec{Line: &ready.Line{Pattern: "root", Stream: ready.Stdout}, Within: 1500 * time.Millisecond},
				func(r *launch.Request) { r.Logs.Directory = logs })
			got := e.result(e.watch())
			if got.Phase != bursarv1.Phase_PHASE_FAILED || !strings.Contains(got.Reason, "no regular file") {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestACommandIsReady(t *testing.T) {
	a := newAgent(t)
	fifo := a.fifo()
	spec := ready.Spec{Command: []string{"/bin/sh", "-c", `test -z "$(cat)" && test "$SECRET" = s3cret && test -e here || { echo noise; echo not yet >&2; exit 7; }`}, Within: soon, Interval: 100 * time.Millisecond}
	e := a.launch("read x < "+fifo+"; touch here; exec sleep 1000", spec, func(r *launch.Request) { r.Environment["SECRET"] = "s3cret" })
	results := e.watch()
	e.reason("the command exits with 7")
	if strings.Contains(e.record(), "noise") || strings.Contains(e.record(), "not yet") {
		t.Errorf("the record has what the command writes, which may be secret: %s", e.record())
	}
	a.say(fifo)
	if got := e.result(results); got.Phase != bursarv1.Phase_PHASE_READY {
		t.Errorf("%+v", got)
	}
	if strings.Contains(e.record(), "s3cret") {
		t.Errorf("the record has the environment: %s", e.record())
	}
}

// The keeper may be spared when memory is short. A command must not be.
func TestACommandIsNotProtected(t *testing.T) {
	a := newAgent(t)
	e := a.launch("exec sleep 1000", ready.Spec{
		Command: []string{"sh", "-c", "echo -500 > /proc/self/oom_score_adj; read score < /proc/self/oom_score_adj; [ $score != 0 ]; exit $((3 + $?))"}, Within: soon,
	})
	e.reason("exits with 4")
}

// Nothing of a look is left, whatever the command does.
func TestACommandIsKilledWithAllThatItHasStarted(t *testing.T) {
	const hidden = "(setsid sh -c 'trap \"\" TERM HUP INT; sleep 7654' >/dev/null 2>&1 &); "
	// Two processes, each of which starts the next and ends: never more.
	const comets = "f() { (f &) }; f && f; sleep 7654"
	for name, test := range map[string]struct{ script, reason string }{
		"it hangs":                       {"sleep 7654", "did not end within 500ms"},
		"it ignores all signals":         {"trap '' TERM HUP INT QUIT USR1; while :; do sleep 7654; done", "did not end within 500ms"},
		"it leaves a daemon and fails":   {hidden + "exit 4", "exits with 4"},
		"it leaves a daemon and hangs":   {hidden + "sleep 7654", "did not end within 500ms"},
		"it forks and ends for ever":     {comets, "did not end within 500ms"},
		"it has 300 children":            {"for i in $(seq 300); do (trap '' TERM; sleep 7654; sleep 7654) & done; sleep 7654", ""},
		"it writes without end":          {"exec yes", "did not end within 500ms"},
		"it closes its output":           {"exec >&- 2>&-; sleep 7654", "did not end within 500ms"},
		"it writes a line without end":   {"exec tr '\\0' z < /dev/zero", "did not end within 500ms"},
		"it stops its parent, and hangs": {"kill -STOP $PPID; sleep 7654", "did not end within 500ms"},
		"it kills its parent, and hangs": {"kill -KILL $PPID; sleep 7654", ""},
		"a program that is not there":    {"", "is not in PATH"},
		"it ends by a signal":            {"kill -SEGV $$", "was ended by signal 11"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t)
			spec := ready.Spec{Command: []string{"/bin/sh", "-c", test.script}, Within: 1500 * time.Millisecond}
			if strings.Contains(test.script, "$PPID") {
				spec.Within = 3500 * time.Millisecond
			}
			if test.script == "" {
				spec.Command = []string{"no-such-program"}
			}
			e := a.launch("exec sleep 1000", spec, limited)
			got := e.result(e.watch())
			if got.Phase != bursarv1.Phase_PHASE_FAILED || !strings.Contains(got.Reason, test.reason) {
				t.Errorf("%+v: want %q", got, test.reason)
			}
			proc.Eventually(t, 20*time.Second, 50*time.Millisecond, "nothing but the engine", func() error {
				if left := e.below(); len(left) != 1 || left[0] != "sleep 1000" {
					return fmt.Errorf("%q", left)
				}
				return nil
			})
		})
	}
}

// The engine's user may do anything to its helper. The keeper starts another one.
func TestAHelperThatIsKilledIsReplaced(t *testing.T) {
	a := newAgent(t)
	fifo := a.fifo()
	e := a.launch("read x < "+fifo+"; touch it; exec sleep 1000", ready.Spec{File: "it", Within: soon})
	first := e.helper()
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	proc.Until(t, 20*time.Second, 20*time.Millisecond, "another helper", func() bool { return e.helper() != first })
	results := e.watch()
	a.say(fifo)
	if got := e.result(results); got.Phase != bursarv1.Phase_PHASE_READY {
		t.Errorf("%+v", got)
	}
}

func TestAHelperEndsWithItsKeeper(t *testing.T) {
	a := newAgent(t)
	e := a.launch("exec sleep 1000", ready.Spec{Command: []string{"sleep", "7655"}, Within: soon})
	helper := e.helper()
	held := proc.Hold(t, helper)
	if err := syscall.Kill(int(e.Reaper.PID), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	proc.Until(t, 20*time.Second, 20*time.Millisecond, "no helper", func() bool { return !held.There() })
	if err := syscall.Kill(int(e.Root.PID), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// Nothing of the check may hold the end of the engine up, or count as its own.
func TestAnEngineEndsWhileItsHelperLooks(t *testing.T) {
	for name, command := range map[string]string{
		"a look hangs": "trap '' TERM; sleep 7656", "the helper is stopped": "kill -STOP $PPID; sleep 7656",
		"a daemon": "(setsid sleep 7656 &) ; sleep 7656",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t)
			fifo := a.fifo()
			e := a.launch("read x < "+fifo+"; exit 5", ready.Spec{Command: []string{"sh", "-c", command}, Within: soon})
			proc.Until(t, 20*time.Second, 20*time.Millisecond, "a look", func() bool { return strings.Contains(fmt.Sprint(e.below()), "sleep 7656") })
			results := e.watch()
			began := time.Now()
			a.say(fifo)
			got := e.result(results)
			if took := time.Since(began); got.Phase != bursarv1.Phase_PHASE_FAILED || took > 5*time.Second {
				t.Errorf("%+v after %s", got, took)
			}
			record, err := a.launcher.Records.End(e.ID)
			if err != nil || record.Exit.Code == nil || *record.Exit.Code != 5 || record.LeaderTime != nil || record.Killed != 0 || record.Last != nil {
				t.Errorf("%+v, %v\n%s", record, err, e.record())
			}
		})
	}
}

// The helper ignores signals. It must not use up the time that a stop leaves to the engine.
func TestAnEngineIsStoppedWhileItsHelperLooks(t *testing.T) {
	a := newAgent(t)
	e := a.launch("exec sleep 1000", ready.Spec{Command: []string{"sleep", "7657"}, Within: soon})
	proc.Until(t, 20*time.Second, 20*time.Millisecond, "a look", func() bool { return strings.Contains(fmt.Sprint(e.below()), "sleep 7657") })
	began := time.Now()
	if err := a.opener.Stop(t.Context(), process.Engine{Root: e.Root, Reaper: e.Reaper, User: &a.user.UID}, 30*time.Second); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	proc.Until(t, 20*time.Second, 20*time.Millisecond, "a record", func() bool {
		record, err := a.launcher.Records.End(e.ID)
		return err == nil && record.Exit.Signal == int32(syscall.SIGTERM)
	})
}

// After its main process, an engine may live on in a process whose first thread has ended.
func TestADaemonWithoutItsFirstThreadKeepsTheEngine(t *testing.T) {
	a := newAgent(t)
	port := a.port()
	script := fmt.Sprintf("(%s=%q setsid \"$LISTENER\" >/dev/null 2>&1 &); sleep 0.5; exit 0", asListener, fmt.Sprintf("threads tcp4 127.0.0.1:%d", port))
	var directory string
	e := a.launch(script, ready.Spec{File: "it", Within: soon}, func(r *launch.Request) { directory = r.WorkingDirectory })
	proc.Until(t, 20*time.Second, 20*time.Millisecond, "the end of the main process", func() bool {
		record, err := a.launcher.Records.Left(e.ID)
		return err == nil && record.Exit.Code != nil
	})
	if record, err := a.launcher.Records.End(e.ID); err == nil {
		t.Errorf("the engine has ended: %+v", record)
	}
	if err := os.WriteFile(filepath.Join(directory, "it"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := e.result(e.watch()); got.Phase != bursarv1.Phase_PHASE_READY {
		t.Errorf("%+v", got)
	}
}

// After a restart of the agent the check goes on, and its result is known at once.
func TestACheckOutlivesTheAgent(t *testing.T) {
	a := newAgent(t)
	e := a.launch("touch it; exec sleep 1000", ready.Spec{File: "it", Within: soon})
	proc.Until(t, 20*time.Second, 20*time.Millisecond, "a ready engine", func() bool {
		looked, err := a.launcher.Records.Looked(e.ID)
		return err == nil && looked.Ready
	})
	e.Begun = time.Now().Add(-time.Hour) // the time is over
	looked, err := a.launcher.Records.Looked(e.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := e.result(e.watch()); got.Phase != bursarv1.Phase_PHASE_READY || !got.Time.Equal(looked.Time) {
		t.Errorf("%+v, found at %s", got, looked.Time)
	}
}

// The helper's input is nobody's to read, and its arguments say nothing.
func TestAHelperHidesTheEnvironment(t *testing.T) {
	a := newAgent(t)
	e := a.launch("exec sleep 1000", ready.Spec{Command: []string{"sh", "-c", "exit 1", "s3cret"}, Within: soon},
		func(r *launch.Request) { r.Environment["SECRET"] = "s3cret" })
	e.reason("exits with 1")
	proc := "/proc/" + strconv.Itoa(e.helper())
	for _, file := range []string{"cmdline", "environ"} {
		content, err := os.ReadFile(filepath.Join(proc, file))
		if err != nil && !errors.Is(err, os.ErrPermission) || strings.Contains(string(content), "s3cret") {
			t.Errorf("%s: %q, %v", file, content, err)
		}
	}
	var stat syscall.Stat_t
	if err := syscall.Stat(filepath.Join(proc, "mem"), &stat); err != nil || stat.Uid != 0 {
		t.Errorf("others of its user may read its memory: uid %d, %v", stat.Uid, err)
	}
}

package machine

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/test/proc"
)

// script writes a program of the shell's and returns its path.
func script(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "count")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func counted(t *testing.T, c CountableConfig) (int64, error) {
	t.Helper()
	parsed, wrong := c.Parse("gpu")
	if wrong != nil {
		t.Fatal(wrong)
	}
	return countBy(t.Context(), parsed)
}

// promptly fails if something took as long as a program that hangs in these tests.
func promptly(t *testing.T) func() {
	t.Helper()
	began := time.Now()
	return func() {
		t.Helper()
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("took %s", took)
		}
	}
}

// alive reports whether a process runs.
func alive(t *testing.T, pid int) bool {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(data), ") ")
	return state[0] != 'Z' && state[0] != 'X'
}

func readPID(t *testing.T, file string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// awaitEnd waits until a process that was killed has ended.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for alive(t, pid) {
		select {
		case <-ctx.Done():
			t.Fatalf("process %d still runs", pid)
		case <-ticker.C:
		}
	}
}

func TestCommandsThatCount(t *testing.T) {
	for name, test := range map[string]struct {
		config CountableConfig
		want   int64
	}{
		"a number":                    {CountableConfig{Command: []string{script(t, "echo 4")}}, 4},
		"no line feed":                {CountableConfig{Command: []string{"/usr/bin/printf", "7"}}, 7},
		"space around":                {CountableConfig{Command: []string{"/usr/bin/printf", "\n\t 12 \n\n"}, Count: "number"}, 12},
		"the largest":                 {CountableConfig{Command: []string{"/bin/echo", "9007199254740991"}}, 1<<53 - 1},
		"lines":                       {CountableConfig{Command: []string{"/usr/bin/printf", "GPU 0: x\nGPU 1: y\n\n  \nGPU 2: z"}, Count: "lines"}, 3},
		"no lines":                    {CountableConfig{Command: []string{"/bin/true"}, Count: "lines"}, 0},
		"nothing to read":             {CountableConfig{Command: []string{"/bin/cat"}, Count: "lines"}, 0},
		"its arguments see no shell":  {CountableConfig{Command: []string{"/bin/echo", "$(echo a; echo b)\n`echo c`"}, Count: "lines"}, 2},
		"its environment is minimal":  {CountableConfig{Command: []string{"/usr/bin/env"}, Count: "lines"}, 2},
		"it is in the root directory": {CountableConfig{Command: []string{script(t, `[ "$(pwd)" = / ] && echo 1`)}}, 1},
		"what it says is no count":    {CountableConfig{Command: []string{script(t, "echo 99 >&2; echo 5")}}, 5},
	} {
		if got, err := counted(t, test.config); err != nil || got != test.want {
			t.Errorf("%s: %d, %v, want %d", name, got, err, test.want)
		}
	}
}

func TestCommandsThatFail(t *testing.T) {
	for name, test := range map[string]struct {
		command []string
		want    string
	}{
		"garbage":     {[]string{"/bin/echo", "three"}, `printed "three": want a whole number from 0 to 9007199254740991`},
		"more":        {[]string{"/bin/echo", "3 GPUs"}, `printed "3 GPUs"`},
		"nothing":     {[]string{"/bin/true"}, `printed ""`},
		"negative":    {[]string{"/bin/echo", "-1"}, `printed "-1"`},
		"signed":      {[]string{"/bin/echo", "+1"}, `printed "+1"`},
		"2^63":        {[]string{"/bin/echo", "9223372036854775808"}, `printed "9223372036854775808"`},
		"2^63-1":      {[]string{"/bin/echo", strconv.Itoa(math.MaxInt64)}, `printed "9223372036854775807"`},
		"binary":      {[]string{"/usr/bin/head", "-c", "1000", "/dev/zero"}, `printed "\x00\x00`},
		"a fraction":  {[]string{"/bin/echo", "1.5"}, `printed "1.5"`},
		"exit status": {[]string{script(t, "echo 3; exit 4")}, "exit status 4"},
		"it says why": {[]string{script(t, "echo first >&2; printf 'no\\033[0m driver\\n' >&2; exit 4")}, "exit status 4: first / no [0m driver"},
		"a signal":    {[]string{script(t, "kill -SEGV $$")}, "signal: segmentation fault"},
		"not there":   {[]string{"/no/such/program"}, "it could not be started: fork/exec /no/such/program: no such file or directory"},
		"a directory": {[]string{"/tmp"}, "permission denied"},
		"without end": {[]string{script(t, "yes")}, "it printed more than 65536 bytes"},
	} {
		inTime := promptly(t)
		if got, err := counted(t, CountableConfig{Command: test.command, Timeout: time.Minute}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %d, %v, want %q", name, got, err, test.want)
		} else if len(err.Error()) > 2*maxProblem {
			t.Errorf("%s: %d bytes: %v", name, len(err.Error()), err)
		}
		inTime()
	}
}

func TestCommandThatHangsIsKilledWithAllItStarted(t *testing.T) {
	defer promptly(t)()
	file := filepath.Join(t.TempDir(), "pid")
	command := script(t, "trap '' TERM INT HUP\nsleep 3600 &\necho $! >"+file+"\necho 3\nwait")
	got, err := counted(t, CountableConfig{Command: []string{command}, Timeout: 2 * time.Second})
	if err == nil || err.Error() != "killed after 2s" {
		t.Errorf("%d, %v", got, err)
	}
	awaitEnd(t, readPID(t, file))
}

func TestCommandThatComplainsWithoutEndHasItsTime(t *testing.T) {
	defer promptly(t)()
	if got, err := counted(t, CountableConfig{Command: []string{script(t, "yes >&2")}, Timeout: time.Second}); err == nil || err.Error() != "killed after 1s" {
		t.Errorf("%d, %v", got, err)
	}
}

// TestNothingOutlivesACommandThatCounts: what leaves its session, and its output, ends with it.
func TestNothingOutlivesACommandThatCounts(t *testing.T) {
	for name, how := range map[string]string{
		"in its session": "sh -c 'WAITS' &", "in another": "setsid sh -c 'WAITS' &", "a daemon": "(setsid sh -c 'WAITS' </dev/null >/dev/null 2>&1 &) &",
	} {
		for end, timeout := range map[string]time.Duration{"exit 0": time.Minute, "exec sleep 3600": 5 * time.Second} {
			t.Run(name+" "+end, func(t *testing.T) {
				defer promptly(t)()
				file := filepath.Join(t.TempDir(), "pid")
				text := strings.ReplaceAll(how, "WAITS", "echo $$ >"+file+".new; mv "+file+".new "+file+"; exec sleep 3600") +
					"\nuntil [ -e " + file + " ]; do :; done\necho 3\n" + end
				got, err := counted(t, CountableConfig{Command: []string{script(t, text)}, Timeout: timeout})
				if end == "exit 0" && (err != nil || got != 3) || end != "exit 0" && (err == nil || err.Error() != "killed after 5s") {
					t.Errorf("%d, %v", got, err)
				}
				if pid := readPID(t, file); alive(t, pid) {
					t.Errorf("process %d outlives its command", pid)
					proc.KillGroupAtEnd(t, pid)
				}
			})
		}
	}
}

func TestCommandEndsWithTheAgent(t *testing.T) {
	defer promptly(t)()
	parsed, wrong := CountableConfig{Command: []string{"/bin/sleep", "3600"}, Timeout: time.Minute}.Parse("gpu")
	if wrong != nil {
		t.Fatal(wrong)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := countBy(ctx, parsed); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const (
	patience  = 20 * time.Second
	pollEvery = 5 * time.Millisecond
)

// recorder is a test that can fail without ending the test around it.
type recorder struct {
	testing.TB

	complaints []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.complaints = append(r.complaints, fmt.Sprintf(format, args...))
}

func (r *recorder) Error(args ...any) { r.complaints = append(r.complaints, fmt.Sprint(args...)) }

// Fatalf ends the goroutine, like that of a real test.
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// complaints returns the failures of a test that runs do.
func complaints(t *testing.T, do func(tb testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		do(r)
	}()
	<-ended
	return strings.Join(r.complaints, "\n")
}

func shell(script string) *exec.Cmd { return exec.Command("sh", "-c", script) }

func TestAProcessIsStartedStoppedAndStartedAgain(t *testing.T) {
	p := New(t, "shell", func() *exec.Cmd { return shell("echo up; echo complaint >&2; exec sleep 1000") })
	p.Kill() // was not started
	for round := 1; round <= 2; round++ {
		p.Start()
		Until(t, patience, pollEvery, "it is up", func() bool {
			text := p.Output.String()
			return strings.Count(text, "up\n") == round && strings.Count(text, "complaint\n") == round
		})
		if !p.Running() || !Alive(p.PID()) {
			t.Fatal("it does not run")
		}
		p.Stop(patience)
		if p.Running() || Alive(p.PID()) || p.Err() == nil {
			t.Errorf("it was stopped, and runs or has ended well: %v", p.Err())
		}
	}
	p.Kill()
	if said := complaints(t, func(tb testing.TB) { p.tb = tb; p.Signal(syscall.SIGTERM) }); !strings.Contains(said, "shell") {
		t.Errorf("a signal to one that has ended: %q", said)
	}
}

func TestAProcessThatDoesNotEndInTime(t *testing.T) {
	p := Start(t, shell("trap '' TERM; echo up; while :; do sleep 0.01; done"))
	Until(t, patience, pollEvery, "it is up", func() bool { return p.Output.String() != "" })
	said := complaints(t, func(tb testing.TB) { p.tb = tb; p.Stop(10 * time.Millisecond) })
	if !strings.Contains(said, "sh -c has not ended within 10ms:\nup\n") {
		t.Errorf("says %q", said)
	}
}

func TestAProcessThatEndsByItself(t *testing.T) {
	if code := Start(t, shell("exit 3")).Wait(patience); code != 3 {
		t.Errorf("code %d, want 3", code)
	}
}

func TestStreamsThatAreLedElsewhere(t *testing.T) {
	cmd, elsewhere := shell("echo one; echo two >&2"), &Output{}
	cmd.Stderr = elsewhere
	p := Start(t, cmd)
	p.Wait(patience)
	if p.Output.String() != "one\n" || elsewhere.String() != "two\n" {
		t.Errorf("%q and %q", p.Output, elsewhere)
	}
}

func TestFaultsAreFoundInWhatIsNotKept(t *testing.T) {
	o := &Output{most: 100}
	_, _ = o.Write([]byte("x\npanic: y\n"))
	_, _ = o.Write([]byte(strings.Repeat("a", 200)))
	if text := o.String(); text != strings.Repeat("a", 50) {
		t.Errorf("keeps %q", text)
	}
	p := &Process{Name: "shell", Output: o}
	if said := complaints(t, func(tb testing.TB) { p.tb = tb; p.CheckFaults() }); said != "shell: panic: " {
		t.Errorf("says %q", said)
	}
	o.Forget()
	if faults := o.Faults(); len(faults) > 0 {
		t.Errorf("after it forgot: %q", faults)
	}
	_, _ = o.Write([]byte("ab"))
	if o.Tail() != "ab" {
		t.Errorf("tail %q", o.Tail())
	}
}

func TestRunTellsWhatACommandLeft(t *testing.T) {
	r := Run(t, patience, func(cmd *exec.Cmd) { cmd.Env = []string{"WORD=word"} }, "sh", "-c", `echo "$WORD"; echo complaint >&2; exit 4`)
	r.Expect(t, 4, "word", "complaint")
	if r.Stdout != "word\n" || r.Stderr != "complaint\n" {
		t.Errorf("%+v", r)
	}
	for want, do := range map[string]func(tb testing.TB){
		"exit code 4, want 0":        func(tb testing.TB) { r.Expect(tb, 0) },
		`does not print "nothing"`:   func(tb testing.TB) { r.Expect(tb, 4, "nothing") },
		"not done within 10ms":       func(tb testing.TB) { Run(tb, 10*time.Millisecond, nil, "sleep", "1000") },
		"executable file not found":  func(tb testing.TB) { Run(tb, patience, nil, "no-such-program-at-all") },
		"it stays: not within 1ms":   func(tb testing.TB) { Eventually(tb, time.Millisecond, time.Microsecond, "it stays", unlike) },
		"it changes: after 0s: unl":  func(tb testing.TB) { Always(tb, patience, pollEvery, "it changes", unlike) },
		"it comes: not within 1ms: ": func(tb testing.TB) { Until(tb, time.Millisecond, time.Microsecond, "it comes", never) },
	} {
		if said := complaints(t, do); !strings.Contains(said, want) {
			t.Errorf("says %q, want %q", said, want)
		}
	}
}

func unlike() error { return errors.New("unlike") }

func never() bool { return false }

func TestEventuallyLooksOftenEvenIfTimeIsShort(t *testing.T) {
	checks := 0
	Eventually(t, 0, time.Microsecond, "the last look", func() error {
		if checks++; checks < leastChecks {
			return unlike()
		}
		return nil
	})
	Always(t, time.Millisecond, time.Microsecond, "nothing is wrong", func() error { return nil })
}

func TestAwaitEndsIfEveryCheckTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := Await(30*time.Second, time.Second, "an answer", func() error {
			time.Sleep(30 * time.Second)
			return unlike()
		})
		if took := time.Since(began); err == nil || took > 3*time.Minute {
			t.Errorf("%v after %s", err, took)
		}
	})
}

func TestEnvironmentLeadsNowhere(t *testing.T) {
	t.Setenv("BURSAR_ADDR", "elsewhere")
	t.Setenv("PGHOST", "elsewhere")
	for _, variable := range Environment("BURSAR_AGENT=here") {
		if strings.Contains(variable, "elsewhere") {
			t.Errorf("keeps %s", variable)
		}
	}
}

func TestAGuardianClearsAwayWhenItIsDismissed(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "left")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	g, err := Guard(`rmdir "$1"`, folder)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); err != nil {
		t.Errorf("it did not wait: %v", err)
	}
	if err := g.Dismiss(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if g, err = Guard(`echo it is stuck >&2; exit 1`); err != nil {
		t.Fatal(err)
	}
	if err := g.Dismiss(); err == nil || !strings.Contains(err.Error(), "it is stuck") {
		t.Errorf("says %v", err)
	}
}

func TestABuildThatFailsSaysWhy(t *testing.T) {
	err := Build{Into: filepath.Join(t.TempDir(), "program"), Packages: []string{"./no/such/package"}}.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no/such/package") {
		t.Errorf("says %v", err)
	}
}

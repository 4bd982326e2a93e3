package machine

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/internal/command"
)

func TestAHealthCommandSaysWhetherItsHostIsFit(t *testing.T) {
	for name, test := range map[string]struct{ script, want string }{
		"it is":                      {"echo all well; echo 'no ERROR' >&2", ""},
		"it prints nothing":          {"", ""},
		"it names what is broken":    {"echo disks; echo 'ERROR disk sdb'; echo 'ERROR later'", "ERROR disk sdb"},
		"it also fails":              {"echo 'ERROR disk sdb'; exit 3", "ERROR disk sdb"},
		"it fails":                   {"echo 'no sensor' >&2; exit 3", "exit status 3: no sensor"},
		"it takes too long":          {"exec sleep 60", "killed after 300ms"},
		"it says so and hangs":       {"echo 'ERROR fan'; exec sleep 60", "ERROR fan"},
		"it prints without an end":   {"exec cat /dev/zero", "it printed more than 65536 bytes"},
		"it prints what hides words": {"printf 'ERROR a\\033[2Jb\\r\\n'", "ERROR a [2Jb"},
	} {
		t.Run(name, func(t *testing.T) {
			defer promptly(t)()
			parsed, wrong := HealthCommand{Command: []string{script(t, test.script)}, Timeout: 300 * time.Millisecond}.Parse()
			if wrong != nil {
				t.Fatal(wrong)
			}
			if test.want == "" || !strings.HasPrefix(test.want, "killed") {
				parsed.timeout = 20 * time.Second // the machine may be slow
			}
			if strings.Contains(test.script, "fan") {
				parsed.timeout = time.Second
			}
			got := ""
			if err := checkHealth(t.Context(), parsed); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("%q: want %q", got, test.want)
			}
		})
	}
	missing := HealthSettings{command: commandText([]string{"/no/such/program"}), timeout: time.Second}
	if err := checkHealth(t.Context(), missing); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a program that is not there: %v", err)
	}
}

// healths plays health commands: it runs a loop in a bubble, with what f says for each command.
func healths(t *testing.T, run func(of HealthSettings) error, f func(h *HealthLoop, changes *int)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		changes := 0
		h := NewHealthLoop(time.Now(), slog.New(slog.DiscardHandler), func() { changes++ })
		h.run = func(_ context.Context, of HealthSettings) error { return run(of) }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.Loop(ctx) }()
		synctest.Wait()
		f(h, &changes)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Another command runs at once, and until it has ended its host is as fit as before.
func TestAReloadReplacesTheHealthCommandAtOnce(t *testing.T) {
	ill, well := HealthSettings{command: "ill\x00", interval: 24 * time.Hour}, HealthSettings{command: "well\x00", interval: 24 * time.Hour}
	run := func(of HealthSettings) error {
		time.Sleep(time.Second)
		if of == ill {
			return errors.New("broken")
		}
		return nil
	}
	healths(t, run, func(h *HealthLoop, changes *int) {
		want := func(text string) {
			t.Helper()
			synctest.Wait()
			if got := h.Problem(); got != text {
				t.Errorf("%q: want %q", got, text)
			}
		}
		want("")
		h.Use(time.Now(), ill)
		want("health command: has not ended yet")
		time.Sleep(2 * time.Second)
		want("health command: broken")
		h.Use(time.Now(), well)
		want("health command: broken")
		time.Sleep(2 * time.Second)
		want("")
		h.Use(time.Now(), ill)
		h.Use(time.Now(), HealthSettings{}) // while it runs
		time.Sleep(2 * time.Second)
		want("")
		if *changes != 2 {
			t.Errorf("the host was measured again %d times, want once for each change", *changes)
		}
	})
}

// A command that was killed and hangs in the kernel is not started a second time.
func TestAHealthCommandThatHangsIsNotStartedAgain(t *testing.T) {
	runs, gone := 0, make(chan struct{})
	run := func(HealthSettings) error {
		if runs++; runs > 1 {
			return nil
		}
		return &command.UndeadError{Cause: errors.New("killed after 10s"), Gone: gone}
	}
	healths(t, run, func(h *HealthLoop, _ *int) {
		h.Use(time.Now(), HealthSettings{command: "x\x00", interval: time.Second})
		time.Sleep(time.Minute)
		synctest.Wait()
		if got, want := h.Problem(), "health command: killed after 10s; it hangs in the kernel and cannot be killed"; runs != 1 || got != want {
			t.Errorf("%d runs, %q: want one, %q", runs, got, want)
		}
		close(gone)
		time.Sleep(time.Minute)
		synctest.Wait()
		if runs < 30 || h.Problem() != "" {
			t.Errorf("%d runs, %q: want one each second since it ended", runs, h.Problem())
		}
	})
}

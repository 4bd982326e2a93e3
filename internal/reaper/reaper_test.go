package reaper_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bursar/bursar/internal/processtable"
	"github.com/bursar/bursar/internal/reaper"
)

// script is what this binary runs as a subreaper, if it is set: a test process has other children.
const script = "BURSAR_TEST_REAPER"

func TestMain(m *testing.M) {
	if text, set := os.LookupEnv(script); set {
		os.Exit(reap(text))
	}
	os.Exit(m.Run())
}

// reap runs a script and says what it has left behind, a line each, and how that ended. It sends
// SIGTERM to what has said "left".
func reap(text string) int {
	r, err := reaper.New()
	if err != nil {
		fmt.Fprintln(os.Stderr, err.Error())
		return 2
	}
	cmd := exec.Command("sh", "-c", text)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 2
	}
	if err := cmd.Start(); err != nil {
		return 2
	}
	r.Start(cmd.Process.Pid)
	lines := bufio.NewReader(out)
	line, _ := lines.ReadString('\n')
	_, _ = cmd.Process.Wait()
	deaths := r.Deaths()
	for _, pid := range reaper.Processes() {
		if p, there := processtable.Look(pid); !there || p.Ended {
			fmt.Fprintln(os.Stderr, "a zombie")
		}
	}
	if strings.TrimSpace(line) == "left" && len(reaper.Signal(syscall.SIGTERM)) > 0 {
		fmt.Fprintln(os.Stderr, "refused")
	}
	for d := range deaths {
		if d.Status.Signaled() {
			fmt.Fprintln(os.Stderr, "signal", int(d.Status.Signal()))
		} else {
			fmt.Fprintln(os.Stderr, "code", d.Status.ExitStatus())
		}
	}
	fmt.Fprintln(os.Stderr, "none is left:", len(reaper.Processes()))
	return 0
}

func TestWhatACommandLeavesBehindIsWaitedFor(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		want   []string
	}{
		"nothing":                       {"echo", nil},
		"before the command ends":       {"(true &); (false &); sleep 0.1; echo", nil},
		"a process that ends by itself": {"(sh -c 'sleep 0.2; exit 7' &); echo", []string{"code 7"}},
		"a daemon":                      {"setsid sh -c 'echo left; exec sleep 1000' & read x < /dev/null; sleep 0.1", []string{"signal 15"}},
		"two, one below the other":      {"(sh -c \"trap 'wait; exit 3' TERM; sleep 1000 & echo left; wait\" &); sleep 0.1", []string{"code 3"}},
		"below one that ends":           {"(sh -c '(setsid sh -c \"echo left; exec sleep 1000\" &)' &); sleep 0.2", []string{"signal 15"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), script+"="+test.script)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			got := strings.Split(strings.TrimSpace(string(out)), "\n")
			if last := got[len(got)-1]; last != "none is left: 0" || !slices.Equal(got[:len(got)-1], test.want) && len(got)+len(test.want) > 1 {
				t.Errorf("%q; want %q", got, test.want)
			}
		})
	}
}

// What this process had started before is not the command's: a shell that has children may become
// this program.
func TestChildrenOfBeforeAreNotTheCommands(t *testing.T) {
	earlier := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := earlier.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = earlier.Process.Kill()
		_ = earlier.Wait() // it was killed
	}()
	if _, err := reaper.New(); err == nil {
		t.Error("it takes the children of before for the command's")
	}
}

package systemd

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/unit"
	"github.com/bursar/bursar/test/proc"
)

const engineSlice = "/bursar.slice/bursar-engines.slice/"

// buildTool builds a program of this module and returns its path.
func buildTool(t *testing.T, pkg string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(pkg))
	if err := (proc.Build{Into: to, Packages: []string{pkg}}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestUnits checks that the packages agent/unit and agent/cgroup agree with a real systemd.
func TestUnits(t *testing.T) {
	files := map[string]string{"units": buildTool(t, "./test/systemd/units"), "cgroup.test": filepath.Join(t.TempDir(), "cgroup.test")}
	if err := BuildTest(t.Context(), files["cgroup.test"], "./agent/cgroup"); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []Kind{Container, Virtual} {
		t.Run(string(kind), func(t *testing.T) {
			m := Start(t, Options{Kind: kind, Files: files})
			m.Await(t, 30*time.Second, "systemctl is-system-running")
			t.Run("a machine boots", m.boots)
			u := units{m}
			t.Run("a running tree is adopted", u.adopts)
			t.Run("a service is started", u.starts)
			t.Run("what does not start leaves nothing", u.startsNothing)
			t.Run("a kill for lack of memory is told", u.tellsOfKills)
			t.Run("a new systemd is talked to", u.reconnects)
			if kind == Virtual {
				t.Run("cgroups are of version 2", m.unified)
			}
		})
	}
}

type units struct{ *Machine }

func (u units) do(arguments ...string) []string {
	return append([]string{"/opt/test/units"}, arguments...)
}

// ask runs the tool and decodes its output.
func ask[T any](t *testing.T, u units, arguments ...string) (answer T) {
	t.Helper()
	if err := json.Unmarshal([]byte(u.Must(t, u.do(arguments...)...)), &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func (u units) show(t *testing.T, unit, property string) string {
	t.Helper()
	return u.Must(t, "systemctl", "show", "--value", "-p", property, unit)
}

func (u units) found(t *testing.T, want ...cgroup.Found) {
	t.Helper()
	if diff := cmp.Diff(want, ask[[]cgroup.Found](t, u, "find")); diff != "" {
		t.Error(diff)
	}
}

func (u units) adopts(t *testing.T) {
	const unit, path = "bursar-engine-e1.scope", engineSlice + "bursar-engine-e1.scope"
	pid := u.Shell(t, "setsid sh -c 'while :; do sleep 1 & sleep 0.1; done' >/dev/null 2>&1 & echo $!")
	// The minimum of the limits on its path; with version 1 the agent does not move it there.
	tasks := u.Shell(t, `for dir in $(sed -n s/^0:://p /proc/`+pid+`/cgroup); do
		while [ "$dir" != / ]; do cat /sys/fs/cgroup$dir/pids.max 2>/dev/null || true; dir=$(dirname $dir); done; true
	done | grep -v max | sort -n | head -n 1 || true`)
	if tasks == "" {
		tasks = "infinity"
	}
	if got := ask[string](t, u, "adopt", "e1", pid, "100"); got != path {
		t.Fatalf("in %q, want %q", got, path)
	}
	// All of its processes are in the cgroup, and stay there.
	u.Shell(t, fmt.Sprintf(`for pid in $(pgrep -s %[1]s); do
		[ ! -e /proc/$pid/cgroup ] || grep -q %[2]s$ /proc/$pid/cgroup || [ "$(ps -o stat= $pid | cut -c 1)" = Z ] || [ ! -e /proc/$pid ]
	done`, pid, path))
	for property, want := range map[string]string{
		"MemoryMax": fmt.Sprint(100 << 20), "MemorySwapMax": "0", "CPUQuotaPerSecUSec": "1s", "CPUWeight": "100", "TasksMax": tasks, "Slice": unitSlice,
	} {
		if got := u.show(t, unit, property); got != want {
			t.Errorf("%s is %s, want %s", property, got, want)
		}
	}
	u.found(t, cgroup.Found{ID: "e1", Path: path})
	if facts := ask[cgroup.Facts](t, u, "facts", "e1"); facts != (cgroup.Facts{MemoryMax: 100 << 20}) {
		t.Errorf("%+v", facts)
	}
	u.Must(t, u.do("set", "e1", "0")...)
	if got := u.show(t, unit, "MemoryMax"); got != "infinity" {
		t.Error(got)
	}
	// A restarted agent adopts it as it is.
	if got := ask[string](t, u, "adopt", "e1", pid, "200"); got != path || u.show(t, unit, "MemoryMax") != fmt.Sprint(200<<20) {
		t.Error(got, u.show(t, unit, "MemoryMax"))
	}
	if r := u.As(t, "", u.do("remove", "e1")...); r.Code == 0 || !strings.Contains(r.Errors, cgroup.ErrBusy.Error()) {
		t.Error(r)
	}
	u.Must(t, "kill", "-0", pid)
	u.Must(t, "kill", pid)
	u.Await(t, 20*time.Second, "/opt/test/units remove e1")
	u.Await(t, 20*time.Second, "! systemctl is-active "+unit)
	u.found(t)
}

const unitSlice = unit.Slice

func (u units) starts(t *testing.T) {
	const name = "bursar-engine-e2.service"
	u.Must(t, "useradd", "--create-home", "--uid", "4711", "alice")
	r, err := u.Run(t.Context(), Command{
		Arguments: u.do("start", "e2", "4711", "100", "/bin/sh", "-c",
			`read line; echo "$line $(id -u) $(id -g) $(pwd) $(umask)"; tr '\0' '\n' </proc/$$/environ; trap 'echo asked to end >/tmp/e2; exit 0' TERM; echo up >/tmp/e2-up; while :; do sleep 0.1; done`),
		Input: "hello\n",
	})
	if err != nil || r.Code != 0 {
		t.Fatal(err, r)
	}
	var started unit.Started
	at := strings.Index(r.Output, "{")
	if err := json.Unmarshal([]byte(strings.SplitN(r.Output[max(at, 0):], "\n", 2)[0]), &started); err != nil {
		t.Fatal(err, r)
	}
	if want := engineSlice + name; started.Cgroup != want || fmt.Sprint(started.PID) != u.show(t, name, "MainPID") {
		t.Errorf("%+v", started)
	}
	u.Await(t, 20*time.Second, "cat /tmp/e2-up")
	environment := u.Must(t, "sh", "-c", fmt.Sprintf(`tr '\0' '\n' </proc/%d/environ`, started.PID))
	if environment != "PATH=/usr/bin:/bin" {
		t.Errorf("its environment is %q", environment)
	}
	if got := u.Must(t, "sh", "-c", fmt.Sprintf(`stat -c %%U /proc/%[1]d; readlink /proc/%[1]d/cwd; grep Umask /proc/%[1]d/status`, started.PID)); got != "alice\n/\nUmask:\t0022" {
		t.Errorf("it runs as %q", got)
	}
	u.found(t, cgroup.Found{ID: "e2", Path: engineSlice + name})
	if got := u.show(t, name, "OOMPolicy"); got != "continue" {
		t.Error(got)
	}
	// The engine gets a signal when the machine shuts down.
	u.Must(t, "systemctl", "stop", name)
	if got := u.Must(t, "cat", "/tmp/e2"); got != "asked to end" {
		t.Error(got)
	}
	u.found(t)
	u.Must(t, u.do("remove", "e2")...)
}

func (u units) startsNothing(t *testing.T) {
	for name, command := range map[string][]string{
		"no program": {"start", "e3", "0", "0", "/no/such/program"},
		"no unit":    {"start", "../e3", "0", "0", "/bin/true"},
	} {
		if r := u.As(t, "", u.do(command...)...); r.Code == 0 {
			t.Errorf("%s: %s", name, r)
		}
	}
	u.Must(t, u.do("remove", "e3")...)
	u.found(t)
}

func (u units) tellsOfKills(t *testing.T) {
	want := cgroup.Facts{OOMKills: 1, AtLimit: true, MemoryMax: 50 << 20}
	killed := func(id string) {
		t.Helper()
		u.Await(t, 60*time.Second, `/opt/test/units facts `+id+` | grep -q '"OOMKills":1,'`)
		if facts := ask[cgroup.Facts](t, u, "facts", id); facts != want {
			t.Errorf("%+v, want %+v", facts, want)
		}
	}
	// If the kernel kills one of an engine's processes, the others continue.
	u.Must(t, u.do("start", "e4", "0", "50", "/bin/sh", "-c", "/opt/test/inside hold 200; exec sleep 1000 </dev/null >/dev/null 2>&1")...)
	killed("e4")
	u.Must(t, "systemctl", "is-active", "bursar-engine-e4.service")
	// If its first process was killed, the unit stays failed until its result was read.
	u.Must(t, "sh", "-c", "kill -KILL "+u.show(t, "bursar-engine-e4.service", "MainPID"))
	u.Await(t, 30*time.Second, "systemctl is-failed bursar-engine-e4.service")
	u.found(t, cgroup.Found{ID: "e4"})
	u.Must(t, u.do("remove", "e4")...)
	u.found(t)

	pid := u.Shell(t, "choom -n 0 -- setsid sh -c 'sleep 5; /opt/test/inside hold 200; sleep 1000' >/dev/null 2>&1 & echo $!")
	ask[string](t, u, "adopt", "e5", pid, "50")
	killed("e5")
	u.Must(t, "systemctl", "is-active", "bursar-engine-e5.scope")
	u.Must(t, "pkill", "-KILL", "-s", pid)
	u.Await(t, 20*time.Second, "/opt/test/units remove e5")
}

func (u units) reconnects(t *testing.T) {
	pid := u.Shell(t, "setsid sleep 1000 >/dev/null 2>&1 & echo $!")
	path := ask[string](t, u, "adopt", "e6", pid, "0")
	if got := ask[[]cgroup.Found](t, u, "reexec"); len(got) != 1 || got[0] != (cgroup.Found{ID: "e6", Path: path}) {
		t.Error(got)
	}
	u.Must(t, "kill", pid)
	u.Await(t, 20*time.Second, "/opt/test/units remove e6")
}

// unified runs the tests of agent/cgroup that need the kernel, if the kernel has version 2.
func (m *Machine) unified(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	r, err := m.Run(ctx, Command{Arguments: []string{
		// The program inside must not be killed for lack of memory, and its children would inherit
		// that.
		"choom", "-n", "0", "--", "/opt/test/cgroup.test", "-test.v", "-test.timeout=3m", "-test.run", "^Test(TheKernel|ARunningTree|ARestart|AnEngineThatForks)",
	}})
	if err != nil || r.Code != 0 || strings.Count(r.Output, "\n--- PASS") != 6 {
		t.Error(err, r)
	}
}

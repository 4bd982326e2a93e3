//go:build linux

package linkis

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// ended is how long it may take until an engine that was killed is released and its rows are gone:
// two of the agent's ticks and two of the projector's, on a machine that is busy. Stock Linkis
// takes up to two minutes.
const ended = 15 * time.Second

// TestEngines has Linkis start real engines, and kills what can be killed.
func TestEngines(t *testing.T) {
	r := startEngines(t)
	for _, step := range []struct {
		name string
		f    func(*testing.T)
	}{
		{"a script runs in an engine that is booked, measured and confirmed", r.scriptRuns},
		{"an engine that is killed is released", r.engineIsKilled},
		{"three creations while a dead engine's row stands", r.threeAtOnce},
		{"a pid that is another's by now is not killed", r.pidIsAnothers},
		{"the coordinator is killed", r.coordinatorIsKilled},
		{"the agent is restarted", r.agentIsRestarted},
		{"the ECM is killed", r.ecmIsKilled},
	} {
		began := time.Now()
		t.Run(step.name, func(t *testing.T) {
			outer := r.t
			r.t, r.db.t = t, t
			defer func() { r.t, r.db.t = outer, outer }()
			step.f(t)
		})
		t.Logf("%s: %s", step.name, time.Since(began).Round(100*time.Millisecond))
	}
}

func startEngines(t *testing.T) *running {
	t.Helper()
	r := newRunning(t, options{hosts: 2})
	for _, h := range r.hosts {
		r.startAdaptedECM(h, nil)
	}
	return r
}

// mustCreate creates an engine, once ECMs count as healthy, and waits until its agent has it by its
// pid.
func (r *running) mustCreate(memory string) engine {
	r.t.Helper()
	var e engine
	eventually(r.t, "an engine is created", func() (err error) {
		e, err = r.create(memory)
		if err != nil && !strings.Contains(err.Error(), "healthy") {
			r.t.Fatal(err)
		}
		return err
	})
	e.pid = r.awaitPID(e.ticket)
	return e
}

// awaitPID waits until an allocation is active with a process.
func (r *running) awaitPID(ticket string) (pid int) {
	r.t.Helper()
	eventually(r.t, "the engine is confirmed by its pid", func() error {
		a := r.allocation(ticket)
		if a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE || a.GetProcess().GetPid() == 0 {
			return fmt.Errorf("%v", a)
		}
		pid = int(a.GetProcess().GetPid())
		return nil
	})
	return pid
}

// submit hands a script to the entrance and returns the id of its execution.
func (r *running) submit(code string) string {
	r.t.Helper()
	m, err := r.rest(r.entrance, http.MethodPost, "entrance/submit", map[string]any{
		"executionContent": map[string]string{"code": code, "runType": "shell"},
		"labels":           map[string]string{"engineType": "shell-1", "userCreator": r.user + "-IDE"},
		"params":           map[string]any{"configuration": map[string]any{"startup": map[string]string{"wds.linkis.engineconn.java.driver.memory": "256m"}}},
	}, time.Minute)
	if err != nil || m.Status != 0 {
		r.t.Fatalf("submit: %v %v", m, err)
	}
	id, _ := m.Data["execID"].(string)
	return id
}

func (r *running) scriptRuns(t *testing.T) {
	e := r.mustCreate("256m")
	a := r.allocation(e.ticket)
	t.Logf("engine %s, pid %d: %v", e.instance, e.pid, a)
	if want, _, _ := strings.Cut(e.instance, ":"); a.GetHostId() != want {
		t.Errorf("the engine is on %s, and booked on %s", want, a.GetHostId())
	}
	if r.jvmOf(e.pid) == 0 {
		t.Errorf("pid %d is no engine", e.pid)
	}
	eventually(t, "it is measured", func() error {
		if a := r.allocation(e.ticket); a.GetMeasured().GetMemoryBytes() == 0 {
			return fmt.Errorf("%v", a)
		}
		return nil
	})
	id := r.submit("echo hello-from-the-engine; id -un")
	eventually(t, "the script is done", func() error {
		m, err := r.rest(r.entrance, http.MethodGet, "entrance/"+id+"/status", nil, 10*time.Second)
		if err == nil && m.Data["status"] == "Failed" {
			t.Fatalf("the script failed: %v", m)
		}
		if err == nil && m.Data["status"] != "Succeed" {
			err = fmt.Errorf("%v", m.Data)
		}
		return err
	})
	if !r.wrote("hello-from-the-engine") {
		t.Error("no file has the script's output")
	}
	list, err := r.live()
	if err != nil || len(list) != 1 {
		t.Errorf("want one allocation, the script's engine being the one that there was: %v %v", list, err)
	}
}

// wrote reports whether a file of results has the text.
func (r *running) wrote(text string) bool {
	found := false
	_ = filepath.WalkDir(filepath.Join(r.dir, "run", "user"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			content, _ := os.ReadFile(path)
			found = found || strings.Contains(string(content), text)
		}
		return nil
	})
	return found
}

// engineIsKilled while it runs a script: Bursar takes back what it had, Linkis forgets it, and the
// script's processes end.
func (r *running) engineIsKilled(t *testing.T) {
	const script = "sleep 4711"
	r.submit(script)
	var a *bursarv1.Allocation
	eventually(t, "the script runs in an engine", func() (err error) {
		a, err = r.runs(script)
		return err
	})
	ticket, pid := a.GetId(), r.jvmOf(int(a.GetProcess().GetPid()))
	instance := r.db.rows("SELECT instance FROM linkis_cg_manager_service_instance WHERE identifier = ?", strconv.Itoa(pid))
	sleepers := r.processes(script)
	r.kill(pid)
	began := time.Now()
	var released, gone time.Duration
	defer func() {
		t.Logf("%v released after %s, rows gone after %s: %s", instance, released, gone, r.allocation(ticket).GetReason())
	}()
	proc.Eventually(t, ended, pollEvery, "the engine is released, its rows and its processes are gone", func() error {
		var errs error
		if state := r.allocation(ticket).GetState(); state != bursarv1.AllocationState_ALLOCATION_STATE_RELEASED {
			errs = fmt.Errorf("%v", state)
		} else if released == 0 {
			released = time.Since(began)
		}
		rows, err := r.db.query("SELECT instance FROM linkis_cg_manager_service_instance WHERE identifier = ? UNION ALL SELECT ticketId FROM linkis_cg_manager_linkis_resources WHERE ticketId = ?", strconv.Itoa(pid), ticket)
		if err == nil && len(rows) > 0 {
			err = fmt.Errorf("rows %v", rows)
		} else if gone == 0 {
			gone = time.Since(began)
		}
		for _, sleeper := range sleepers {
			if proc.Alive(sleeper) {
				err = errors.Join(err, fmt.Errorf("its script's process %d lives", sleeper))
			}
		}
		return errors.Join(errs, err)
	})
	t.Logf("everything after %s", time.Since(began))
}

// runs is the allocation of the engine that a script's process descends from.
func (r *running) runs(script string) (*bursarv1.Allocation, error) {
	list, err := r.live()
	if err != nil {
		return nil, err
	}
	for _, pid := range r.processes(script) {
		for parent := pid; parent > 1; parent = parentOf(parent) {
			for _, a := range list {
				if int(a.GetProcess().GetPid()) == parent {
					return a, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("no engine runs it, of %d", len(list))
}

func parentOf(pid int) (parent int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), ") ")
	var state string
	if _, err := fmt.Sscan(after, &state, &parent); err != nil {
		return 0
	}
	return parent
}

func (r *running) kill(pid int) {
	r.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
}

// processes are those of this world with the text in their command line.
func (r *running) processes(text string) []int {
	var list []int
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !proc.Alive(pid) {
			continue
		}
		folder, err := os.Readlink("/proc/" + entry.Name() + "/cwd")
		if err != nil || !strings.HasPrefix(folder, r.dir+"/") {
			continue
		}
		command, _ := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		if strings.Contains(strings.ReplaceAll(string(command), "\x00", " "), text) {
			list = append(list, pid)
		}
	}
	return list
}

// engineProcesses are the processes of engines: Java's own, not the shells above them.
func (r *running) engineProcesses() []int {
	var list []int
	for _, pid := range r.processes("EngineConnServer") {
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.TrimSpace(string(name)) == "java" {
			list = append(list, pid)
		}
	}
	return list
}

// agree compares processes, allocations and rows of engines.
func (r *running) agree() error {
	list, err := r.live()
	if err != nil {
		return err
	}
	booked := make(map[int]string)
	for _, a := range list {
		booked[int(a.GetProcess().GetPid())] = a.GetId()
	}
	alive := r.engineProcesses()
	for _, pid := range alive {
		if booked[pid] == "" {
			return fmt.Errorf("engine %d lives without an allocation: %v", pid, booked)
		}
	}
	rows, err := r.db.query(engineRows)
	if err != nil {
		return err
	}
	if len(alive) != len(list) || len(rows) != len(list) {
		return fmt.Errorf("processes %v, allocations %v, rows %v", alive, booked, rows)
	}
	return nil
}

// agentIsRestarted: nothing changes.
func (r *running) agentIsRestarted(t *testing.T) {
	before := r.states()
	if before == "" {
		t.Fatal("no engine runs")
	}
	for _, h := range r.hosts {
		h.agent.Kill()
		h.agent.Start()
	}
	r.awaitHosts(len(r.hosts))
	proc.Always(t, 5*time.Second, 200*time.Millisecond, "nothing changes", func() error {
		if after := r.states(); after != before {
			return fmt.Errorf("before: %s\nafter: %s", before, after)
		}
		return nil
	})
	if err := r.agree(); err != nil {
		t.Error(err)
	}
}

// states is one line for each live allocation.
func (r *running) states() string {
	list, err := r.live()
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, a := range list {
		lines = append(lines, fmt.Sprint(a.GetId(), " ", a.GetState(), " ", a.GetProcess().GetPid(), " ", a.GetHostId()))
	}
	return strings.Join(lines, "; ")
}

// ecmIsKilled: its engines go on and stay booked; when they end, they are released.
func (r *running) ecmIsKilled(t *testing.T) {
	e := r.mustCreate("256m")
	name, _, _ := strings.Cut(e.instance, ":")
	for _, h := range r.hosts {
		if h.name == name {
			h.ecm.Kill()
		}
	}
	proc.Always(t, 5*time.Second, time.Second, "the engine goes on, and is booked", func() error {
		if a := r.allocation(e.ticket); a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE || !proc.Alive(e.pid) {
			return fmt.Errorf("%v", a)
		}
		return nil
	})
	r.kill(e.pid)
	proc.Eventually(t, ended, pollEvery, "it is released", func() error {
		if a := r.allocation(e.ticket); a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RELEASED {
			return fmt.Errorf("%v", a.GetState())
		}
		return nil
	})
}

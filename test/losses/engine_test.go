package losses

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// engineMemory is what an engine is entitled to, in MiB.
const engineMemory = 64

// engine is the test's side of one.
type engine struct {
	p      *place
	name   string
	path   string
	id     string
	pid    int
	orders *os.File
	run    *proc.Process // of one that `bursar run` has started
	cmd    *exec.Cmd     // of one that the test has started
	reaped chan struct{} // closed when cmd was waited for
}

// prepare makes what an engine needs before it starts.
func (p *place) prepare(name string) *engine {
	p.t.Helper()
	e := &engine{p: p, name: name, path: filepath.Join(p.dir, name)}
	if err := unix.Mkfifo(e.path+".do", 0o600); err != nil {
		p.t.Fatal(err)
	}
	var err error
	if e.orders, err = os.OpenFile(e.path+".do", os.O_RDWR, 0); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = e.orders.Close()
		if pid := e.saidPid(); pid != 0 {
			if held := proc.Hold(p.t, pid); e.mine(pid) {
				_ = held.Signal(syscall.SIGKILL)
			}
		}
		if e.cmd != nil {
			<-e.reaped
		}
	})
	return e
}

// variable makes a program this engine.
func (e *engine) variable() string { return engineVariable + "=" + e.path }

// flags are those of `bursar run` for it.
func (e *engine) flags(more ...string) []string {
	return append([]string{"run", "--memory", fmt.Sprint(engineMemory, "MiB"), "--cpu", "100m", "--label", "user=root", "--label", "engineType=" + e.name}, more...)
}

// labels are those of its allocation.
func (e *engine) labels() map[string]string {
	return map[string]string{"user": "root", "engineType": e.name}
}

// launched is an engine that the agent has started.
func (p *place) launched(name string) *engine {
	p.t.Helper()
	e := p.prepare(name)
	r := p.bursar(e.flags("--detach", "--env", e.variable(), "-o", "json", "--", os.Args[0])...)
	r.Expect(p.t, 0)
	response := &bursarv1.LaunchResponse{}
	if err := protojson.Unmarshal([]byte(r.Stdout), response); err != nil {
		p.t.Fatal(err)
	}
	e.id = response.GetAllocation().GetId()
	e.awaitStart()
	if got := int(response.GetAllocation().GetProcess().GetPid()); got != e.pid {
		p.t.Fatalf("engine %s has pid %d, its allocation %d", name, e.pid, got)
	}
	return e
}

// ran is one that `bursar run` has started.
func (p *place) ran(name string) *engine {
	p.t.Helper()
	e := p.prepare(name)
	e.run = start(p.t, append(p.environment(), e.variable()), filepath.Join(programs, "bursar"), e.flags("--", os.Args[0])...)
	e.awaitStart()
	eventually(p.t, "bursar run has confirmed "+name, func() error {
		for _, a := range p.live() {
			if a.GetLabels()["engineType"] == name && a.GetState() == active {
				e.id = a.GetId()
				return nil
			}
		}
		return errors.New("it has no allocation")
	})
	return e
}

// confirmed is one that the test has started and confirms, as an EngineConnManager does.
func (p *place) confirmed(name string) *engine {
	p.t.Helper()
	e := p.prepare(name)
	e.id = p.allocate(e.labels()).GetId()
	e.startProcess()
	request := &bursarv1.ConfirmRequest{Id: e.id, Process: &bursarv1.Process{Pid: int32(e.pid)}}
	if _, err := p.local.Allocations().Confirm(p.t.Context(), request); err != nil {
		p.t.Fatal(err)
	}
	return e
}

func (e *engine) startProcess() {
	e.p.t.Helper()
	e.cmd, e.reaped = exec.Command(os.Args[0]), make(chan struct{})
	e.cmd.Env = proc.Environment(e.variable())
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := e.cmd.Start(); err != nil {
		e.p.t.Fatal(err)
	}
	go func() {
		_ = e.cmd.Wait() // most are killed
		close(e.reaped)
	}()
	e.awaitStart()
}

// three are engines of every kind.
func (p *place) three(prefix string) []*engine {
	p.t.Helper()
	return []*engine{p.launched(prefix + "launched"), p.ran(prefix + "run"), p.confirmed(prefix + "confirmed")}
}

func (e *engine) said() []string {
	content, _ := os.ReadFile(e.path + ".said") // nothing, before it has begun
	return strings.Split(strings.TrimSpace(string(content)), "\n")
}

func (e *engine) saidPid() (pid int) {
	_, _ = fmt.Sscanf(e.said()[0], "pid %d", &pid)
	return pid
}

// awaitStart waits until it carries out commands.
func (e *engine) awaitStart() {
	e.p.t.Helper()
	eventually(e.p.t, "engine "+e.name+" has started", func() error {
		if e.run != nil && !e.run.Running() {
			e.p.t.Fatalf("bursar run has ended: %v\n%s", e.run.Err(), e.run.Output)
		}
		if e.pid = e.saidPid(); e.pid == 0 {
			return errors.New("it says nothing")
		}
		return nil
	})
}

// tell has it do something, and waits until it has.
func (e *engine) tell(order string) {
	e.p.t.Helper()
	before := e.times(order)
	e.send(order)
	eventually(e.p.t, "engine "+e.name+" does: "+order, func() error {
		if e.times(order) == before {
			return fmt.Errorf("it says %q", e.said())
		}
		return nil
	})
}

// send makes it do something that it cannot report.
func (e *engine) send(order string) {
	e.p.t.Helper()
	if _, err := fmt.Fprintln(e.orders, order); err != nil {
		e.p.t.Fatal(err)
	}
}

// times is how often it has said a line.
func (e *engine) times(line string) (n int) {
	for _, said := range e.said() {
		if said == line {
			n++
		}
	}
	return n
}

// mine reports whether a process is this engine, as far as its environment tells.
func (e *engine) mine(pid int) bool {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return strings.Contains("\x00"+string(content), "\x00"+e.variable()+"\x00")
}

// processes are all that are this engine.
func (e *engine) processes() (pids []int) {
	entries, _ := os.ReadDir("/proc") // it is there
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && proc.Alive(pid) && e.mine(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// runs reports whether it goes on, undisturbed.
func (e *engine) runs() error {
	switch {
	case !proc.Alive(e.pid):
		return fmt.Errorf("engine %s (%d) has ended", e.name, e.pid)
	case e.times("SIGTERM") > 0:
		return fmt.Errorf("engine %s (%d) was asked to end", e.name, e.pid)
	}
	return nil
}

// end has it end with a code and last words, and waits until it has.
func (e *engine) end(code int, words string) {
	e.p.t.Helper()
	e.send(fmt.Sprint("exit ", code, " ", words))
	e.awaitEnd()
}

func (e *engine) awaitEnd() {
	e.p.t.Helper()
	eventually(e.p.t, "engine "+e.name+" ends", func() error {
		if proc.Alive(e.pid) && e.mine(e.pid) {
			return errors.New("it runs")
		}
		return nil
	})
}

// undisturbed returns the first that has not gone on.
func undisturbed(engines []*engine) error {
	for _, e := range engines {
		if err := e.runs(); err != nil {
			return err
		}
	}
	return nil
}

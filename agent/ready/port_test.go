package ready_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/ready"
	"github.com/bursar/bursar/internal/osuser"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestAPortOfTheEngineIsReady(t *testing.T) {
	for name, test := range map[string]struct{ network, address string }{
		"loopback":           {"tcp4", "127.0.0.1"},
		"another loopback":   {"tcp4", "127.7.7.7"},
		"any address of v4":  {"tcp4", "0.0.0.0"},
		"loopback of v6":     {"tcp6", "[::1]"},
		"any address of v6":  {"tcp6", "[::]"},
		"both":               {"tcp", "[::]"},
		"v4 mapped into v6 ": {"tcp", "[::ffff:127.0.0.1]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t)
			port := a.port()
			e := a.launch("", ready.Spec{Port: port, Within: 20 * time.Second}, asEnvironment("listen", test.network, test.address, port))
			if got := e.result(e.watch()); got.Phase != bursarv1.Phase_PHASE_READY {
				t.Errorf("%+v", got)
			}
		})
	}
}

// asEnvironment makes the engine itself the program that listens.
func asEnvironment(what, network, address string, port int32) func(*launch.Request) {
	return func(r *launch.Request) {
		r.Command = []string{programs.listener}
		r.Environment[asListener] = fmt.Sprintf("%s %s %s:%d", what, network, address, port)
	}
}

func TestAPortThatIsOpenedLate(t *testing.T) {
	a := newAgent(t)
	port, fifo := a.port(), a.fifo()
	e := a.launch("read x < "+fifo+"; "+listen("127.0.0.1", port), ready.Spec{Port: port, Within: 20 * time.Second})
	results := e.watch()
	select {
	case got := <-results:
		t.Fatalf("before it listens: %+v", got)
	case <-time.After(300 * time.Millisecond):
	}
	a.say(fifo)
	if got := e.result(results); got.Phase != bursarv1.Phase_PHASE_READY || got.Time.Before(e.Begun) {
		t.Errorf("%+v", got)
	}
}

func TestAPortOfADaemonOfTheEngine(t *testing.T) {
	a := newAgent(t)
	port := a.port()
	e := a.launch("(setsid sh -c '"+listen("127.0.0.1", port)+"' & ) ; exit 0", ready.Spec{Port: port, Within: 20 * time.Second})
	if got := e.result(e.watch()); got.Phase != bursarv1.Phase_PHASE_READY {
		t.Errorf("%+v", got)
	}
}

// The kernel shows neither the open files nor the namespaces of a first thread that has ended.
func TestAPortOfAProcessWhoseFirstThreadHasEnded(t *testing.T) {
	a := newAgent(t)
	port := a.port()
	e := a.launch("", ready.Spec{Port: port, Within: 20 * time.Second}, asEnvironment("threads", "tcp4", "127.0.0.1", port))
	if got := e.result(e.watch()); got.Phase != bursarv1.Phase_PHASE_READY {
		t.Errorf("%+v", got)
	}
}

func TestAPortOfAnotherProcessIsNotReady(t *testing.T) {
	users := map[string]*syscall.Credential{"the agent's user": nil}
	if os.Geteuid() == 0 {
		users["the engine's user"] = &syscall.Credential{Uid: nobody, Gid: nobody}
		users["a third user"] = &syscall.Credential{Uid: 65533, Gid: 65533}
	}
	for name, user := range users {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t)
			port := a.port()
			other := exec.Command(programs.listener)
			other.Env = []string{asListener + fmt.Sprintf("=listen tcp4 0.0.0.0:%d", port)}
			other.SysProcAttr = &syscall.SysProcAttr{Credential: user}
			start(t, other)
			e := a.launch("exec sleep 1000", ready.Spec{Port: port, Within: time.Second})
			got := e.result(e.watch())
			want := fmt.Sprintf("not ready within 1s: another process than the engine's listens on port %d", port)
			if got.Phase != bursarv1.Phase_PHASE_FAILED || got.Reason != want {
				t.Errorf("%+v: want %q", got, want)
			}
		})
	}
}

// An engine may launch another one, whose port is not its own.
func TestAPortOfAnEngineBelowIsNotReady(t *testing.T) {
	a := newAgent(t)
	port := a.port()
	e := a.launch(listen("127.0.0.1", port)+" & echo $! > pid; wait", ready.Spec{Port: port, Within: time.Second})
	var below process.Ref
	for below.PID == 0 {
		refs, err := process.Descendants("/proc", e.Root)
		if err != nil {
			t.Fatal(err)
		}
		if len(refs) > 1 {
			below = refs[1]
		}
	}
	a.others = []process.Ref{e.Root, below}
	if got := e.result(e.watch()); got.Phase != bursarv1.Phase_PHASE_FAILED {
		t.Errorf("%+v", got)
	}
	a.others = a.others[:1]
	if got := e.result(e.watch()); got.Phase != bursarv1.Phase_PHASE_READY {
		t.Errorf("without the other engine: %+v", got)
	}
}

func TestAPortInAnotherNetworkNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root makes network namespaces: the others cannot have such an engine")
		return
	}
	a := newAgent(t)
	a.user = osuser.User{Name: "root", Home: "/", Shell: "/bin/sh"}
	port := a.port()
	within := ready.Spec{Port: port, Within: 20 * time.Second}
	inside := a.launch("unshare -n sh -c '"+listen("0.0.0.0", port)+"'", within)
	if got := inside.result(inside.watch()); got.Phase != bursarv1.Phase_PHASE_READY {
		t.Errorf("%+v", got)
	}
	within.Within = time.Second
	outside := a.launch("exec sleep 1000", within)
	want := fmt.Sprintf("not ready within 1s: nothing listens on port %d", port)
	if got := outside.result(outside.watch()); got.Reason != want {
		t.Errorf("an engine in the namespace of the machine: %+v", got)
	}
}

func TestAnEngineThatEndsHasFailed(t *testing.T) {
	a := newAgent(t)
	port, fifo := a.port(), a.fifo()
	for name, spec := range map[string]ready.Spec{
		"port": {Port: port}, "file": {File: "none"}, "line": {Line: &ready.Line{Pattern: "none"}}, "command": {Command: []string{"false"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec.Within = 30 * time.Second
			e := a.launch("read x < "+fifo+"; exit 3", spec)
			results := e.watch()
			a.say(fifo)
			got := e.result(results)
			if got.Phase != bursarv1.Phase_PHASE_FAILED || !strings.HasPrefix(got.Reason, "the engine ended before it was ready") {
				t.Errorf("%+v", got)
			}
			record, err := a.launcher.Records.End(e.ID)
			if err != nil || record.Exit.Code == nil || *record.Exit.Code != 3 || record.LeaderTime != nil {
				t.Errorf("its end: %+v, %v\n%s", record, err, e.record())
			}
		})
	}
}

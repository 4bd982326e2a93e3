package losses

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// listenVariable makes this program one that listens on a port until it is ended.
const listenVariable = "BURSAR_LOSSES_LISTEN"

func listen(port string) int { //nolint:unparam // an exit code
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for {
		if _, err := listener.Accept(); err != nil {
			return 1
		}
	}
}

// listener copies this program to a place where each account can execute it.
func (p *place) listener() (program string) {
	p.t.Helper()
	program = filepath.Join(p.dir, "out", "listener")
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		p.t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		p.t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close(), os.Chmod(program, 0o755)); err != nil {
		p.t.Fatal(err)
	}
	return program
}

// answer is that of a Start.
type answer struct {
	a   *bursarv1.Allocation
	err error
	at  time.Time
}

// begin calls Start. Its answer comes later.
func begin(t *testing.T, c *client.Client, req *bursarv1.StartRequest) <-chan answer {
	t.Helper()
	answers := make(chan answer, 1)
	go func() {
		res, err := c.Engines().Start(t.Context(), req)
		answers <- answer{res.GetAllocation(), err, time.Now()}
	}()
	return answers
}

// awaitPhase waits until the request's engine is in a phase.
func (p *place) awaitPhase(request string, phase bursarv1.Phase) (a *bursarv1.Allocation) {
	p.t.Helper()
	eventually(p.t, "the engine of "+request+" is "+phase.String(), func() error {
		list, err := p.remote.Allocations().List(p.t.Context(), &bursarv1.AllocationServiceListRequest{Name: request, Phases: []bursarv1.Phase{phase}})
		if err != nil {
			return err
		}
		if len(list.GetAllocations()) != 1 || list.GetAllocations()[0].GetPhase() != phase {
			return errNotYet
		}
		a = list.GetAllocations()[0]
		return nil
	})
	return a
}

// unanswered fails the test if the answer is here.
func unanswered(t *testing.T, answers <-chan answer, why string) {
	t.Helper()
	select {
	case got := <-answers:
		t.Fatalf("%s, and Start answers: %v, %v", why, got.a, got.err)
	default:
	}
}

func awaited(t *testing.T, answers <-chan answer) answer {
	t.Helper()
	select {
	case got := <-answers:
		return got
	case <-time.After(patience):
		t.Fatal("Start does not answer")
		return answer{}
	}
}

// readyFile is the readiness of an engine that makes a file.
func readyFile(path string, within time.Duration) *bursarv1.Readiness {
	return &bursarv1.Readiness{Check: &bursarv1.Readiness_File{File: path}, Within: durationpb.New(within)}
}

// Start answers when a process of the engine listens on the port: not while the program of another
// user does, and long before the next heartbeat.
func TestAStartAnswersWhenThePortListens(t *testing.T) {
	t.Parallel()
	const interval = 25 * time.Second
	p, alice := startRemoteEvery(t, allowed, interval)
	events, stop := context.WithCancel(t.Context())
	defer stop()
	phases := make(chan bursarv1.Phase, 64)
	go func() {
		for e, err := range p.remote.WatchAllocations(events, &bursarv1.AllocationServiceWatchRequest{Labels: map[string]string{"user": "alice"}}) {
			if err != nil {
				return
			}
			if e.GetAllocation() == nil { // the first message: what follows is seen
				phases <- bursarv1.Phase_PHASE_UNSPECIFIED
				continue
			}
			phases <- e.GetAllocation().GetPhase()
		}
	}()
	<-phases
	others, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	number := int32(others.Addr().(*net.TCPAddr).Port) //nolint:forcetypeassert,errcheck // as it was asked for
	port := strconv.Itoa(int(number))
	free := filepath.Join(p.dir, "out", "free")
	req := startOf("server", fmt.Sprintf("until [ -e %s ]; do sleep 0.05; done; exec %s", free, p.listener()))
	req.Launch.Environment = map[string]string{listenVariable: port}
	req.Launch.Ready = &bursarv1.Readiness{Check: &bursarv1.Readiness_Port{Port: number}}
	answers := begin(t, alice, req)
	a := p.awaitPhase("server", bursarv1.Phase_PHASE_STARTING)
	always(t, 2*time.Second, "Start waits while another program listens", func() error {
		unanswered(t, answers, "another program listens")
		return nil
	})
	if err := errors.Join(others.Close(), os.WriteFile(free, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	var listens time.Time
	eventually(t, "the engine listens", func() error {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		if err == nil {
			listens = time.Now()
			_ = conn.Close()
		}
		return err
	})
	got := awaited(t, answers)
	took := got.at.Sub(listens)
	t.Logf("Start has answered %s after the port listened", took)
	if got.err != nil || got.a.GetPhase() != bursarv1.Phase_PHASE_READY || got.a.GetId() != a.GetId() || got.a.GetProcess().GetPid() == 0 || got.a.GetLaunch().GetLogDirectory() == "" {
		t.Errorf("%v, %v", got.a, got.err)
	}
	if took > interval/3 {
		t.Errorf("it took %s", took)
	}
	seen := make(map[bursarv1.Phase]bool)
	for !seen[bursarv1.Phase_PHASE_READY] {
		select {
		case phase := <-phases:
			seen[phase] = true
		case <-time.After(patience):
			t.Fatalf("no event says that it is ready: %v", seen)
		}
	}
	if !seen[bursarv1.Phase_PHASE_STARTING] {
		t.Errorf("events: %v", seen)
	}
}

// failed is the allocation that a refused Start has as its detail.
func failed(t *testing.T, err error) *bursarv1.Allocation {
	t.Helper()
	var refused *connect.Error
	if !errors.As(err, &refused) || refused.Code() != connect.CodeFailedPrecondition {
		t.Fatalf("%v: want FAILED_PRECONDITION", err)
	}
	for _, detail := range refused.Details() {
		if message, err := detail.Value(); err == nil {
			if a, is := message.(*bursarv1.Allocation); is {
				return a
			}
		}
	}
	t.Fatalf("%v has no allocation", err)
	return nil
}

// An engine that is not ready in time is stopped, and tried once more for each retry. The answer
// has each try with its host, its reason and its last output.
func TestAnEngineThatIsNotReadyInTimeIsStopped(t *testing.T) {
	t.Parallel()
	p, alice := startRemote(t, allowed)
	hangs := &bursarv1.Readiness{Check: &bursarv1.Readiness_Command{Command: &bursarv1.CommandCheck{Command: []string{"/bin/sh", "-c", "trap '' TERM; while :; do sleep 100; done"}}}, Within: durationpb.New(time.Second)}
	link, fifo := filepath.Join(p.dir, "out", "link"), filepath.Join(p.dir, "out", "fifo")
	if err := errors.Join(os.Symlink("none", link), syscall.Mkfifo(fifo, 0o666)); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		ready   *bursarv1.Readiness
		retries int32
		reason  string
	}{
		"port":    {&bursarv1.Readiness{Check: &bursarv1.Readiness_Port{Port: 1}, Within: durationpb.New(time.Second)}, 1, "nothing listens on port 1"},
		"file":    {readyFile(filepath.Join(p.dir, "out", "none"), time.Second), 0, "not ready within 1s"},
		"link":    {readyFile(link, time.Second), 0, "not ready within 1s"},
		"below":   {readyFile(fifo+"/x", time.Second), 0, "not ready within 1s"},
		"command": {hangs, 0, "not ready within 1s"},
		"line":    {&bursarv1.Readiness{Check: &bursarv1.Readiness_Line{Line: &bursarv1.LineCheck{Pattern: "^never$"}}, Within: durationpb.New(time.Second)}, 2, "not ready within 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pids := filepath.Join(p.dir, "out", name+".pids")
			req := startOf("late-"+name, "echo $$ >>"+pids+"; echo last words >&2; exec sleep 1000")
			req.Launch.Ready, req.Retries = test.ready, test.retries
			_, err := alice.Engines().Start(t.Context(), req)
			a := failed(t, err)
			tries := a.GetLaunch().GetTries()
			if int32(len(tries)) != test.retries+1 || a.GetPhase() != bursarv1.Phase_PHASE_FAILED || !strings.Contains(a.GetPhaseReason(), test.reason) {
				t.Errorf("%v", a)
			}
			for _, try := range tries {
				if try.GetHostId() != hostID || !try.GetExecuted() || !strings.Contains(try.GetReason(), test.reason) || try.GetErrorOutput() != "last words" {
					t.Errorf("a try: %v", try)
				}
			}
			if !strings.Contains(err.Error(), test.reason) || !strings.Contains(err.Error(), "on host "+hostID) {
				t.Errorf("the message: %v", err)
			}
			began := strings.Fields(read(t, pids))
			if len(began) != int(test.retries)+1 {
				t.Errorf("it began %d times", len(began))
			}
			for _, pid := range began {
				if _, err := os.Stat("/proc/" + pid); err == nil {
					t.Errorf("process %s is still there", pid)
				}
			}
		})
	}
}

// What is there counts, whatever it is: nothing opens it.
func TestAnEngineIsReadyWhenSomethingIsThere(t *testing.T) {
	t.Parallel()
	p, alice := startRemote(t, allowed)
	out := filepath.Join(p.dir, "out")
	for name, makes := range map[string]string{"fifo": "mkfifo", "folder": "mkdir", "link": "ln -s /etc/passwd"} {
		req := startOf(name, "sleep 0.2; "+makes+" "+filepath.Join(out, name)+"; exec sleep 1000")
		req.Launch.Ready, req.Launch.WorkingDirectory = readyFile(name, time.Minute), out // a relative path
		res, err := alice.Engines().Start(t.Context(), req)
		if err != nil || res.GetAllocation().GetPhase() != bursarv1.Phase_PHASE_READY {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
	req := startOf("line", "echo starting; echo up and running >&2; exec sleep 1000")
	req.Launch.Ready = &bursarv1.Readiness{Check: &bursarv1.Readiness_Line{Line: &bursarv1.LineCheck{Pattern: "^up"}}}
	if res, err := alice.Engines().Start(t.Context(), req); err != nil || res.GetAllocation().GetPhase() != bursarv1.Phase_PHASE_READY {
		t.Errorf("a line: %v, %v", res, err)
	}
	req = startOf("command", "sleep 0.2; touch "+filepath.Join(out, "$BURSAR_ALLOCATION_ID")+"; exec sleep 1000")
	req.Launch.Ready = &bursarv1.Readiness{Check: &bursarv1.Readiness_Command{Command: &bursarv1.CommandCheck{Command: []string{"sh", "-c", "ls " + out + "/$BURSAR_ALLOCATION_ID"}}}}
	if res, err := alice.Engines().Start(t.Context(), req); err != nil || res.GetAllocation().GetPhase() != bursarv1.Phase_PHASE_READY {
		t.Errorf("a command: %v, %v", res, err)
	}
}

// An agent that starts anew goes on with the checks of the one before. The time that an engine has
// goes on meanwhile.
func TestAStartOutlivesTheAgent(t *testing.T) {
	t.Parallel()
	p, alice := startRemote(t, allowed)
	out := filepath.Join(p.dir, "out")
	listener := p.listener()
	address := proc.Address(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number := new(int32)
	if _, err := fmt.Sscan(port, number); err != nil {
		t.Fatal(err)
	}
	requests := map[string]*bursarv1.Readiness{
		"file": readyFile(filepath.Join(out, "file.go"), 5*time.Minute), "late": readyFile(filepath.Join(out, "none"), 4*time.Second),
		"port": {Check: &bursarv1.Readiness_Port{Port: *number}}, "ready": readyFile("/", time.Minute),
	}
	answers := make(map[string]<-chan answer)
	for name, ready := range requests {
		req := startOf(name, fmt.Sprintf("until [ -e %s/%s.go ]; do sleep 0.05; done; [ %s = port ] && exec %s; exec sleep 1000", out, name, name, listener))
		req.Launch.Ready, req.Launch.Environment = ready, map[string]string{listenVariable: port}
		answers[name] = begin(t, alice, req)
	}
	was := awaited(t, answers["ready"])
	for _, name := range []string{"file", "late", "port"} {
		p.awaitPhase(name, bursarv1.Phase_PHASE_STARTING)
	}
	p.agent.Signal(syscall.SIGKILL)
	<-p.agent.Ended()
	if err := os.WriteFile(filepath.Join(out, "file.go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p.startAgent()
	if got := awaited(t, answers["file"]); got.err != nil || got.a.GetPhase() != bursarv1.Phase_PHASE_READY {
		t.Errorf("its file was made meanwhile: %v, %v", got.a, got.err)
	}
	if a := failed(t, awaited(t, answers["late"]).err); !strings.Contains(a.GetPhaseReason(), "not ready within 4s") {
		t.Errorf("its file was never made: %v", a)
	}
	unanswered(t, answers["port"], "nothing listens yet")
	p.agent.Signal(syscall.SIGTERM)
	<-p.agent.Ended()
	p.startAgent()
	if err := os.WriteFile(filepath.Join(out, "port.go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := awaited(t, answers["port"]); got.err != nil || got.a.GetPhase() != bursarv1.Phase_PHASE_READY {
		t.Errorf("its port: %v, %v", got.a, got.err)
	}
	now, err := p.remote.Allocations().Get(t.Context(), &bursarv1.AllocationServiceGetRequest{Id: was.a.GetId()})
	if err != nil || now.GetAllocation().GetPhase() != bursarv1.Phase_PHASE_READY || !now.GetAllocation().GetPhaseTime().AsTime().Equal(was.a.GetPhaseTime().AsTime()) {
		t.Errorf("one that was ready: %v, %v; was %v", now, err, was.a)
	}
}

// A script is executed as it is, by its interpreter. What is missing on a host is named.
func TestAScriptIsStartedFromElsewhere(t *testing.T) {
	t.Parallel()
	p, alice := startRemote(t, allowed)
	out := filepath.Join(p.dir, "out", "said")
	req := startOf("script", "")
	req.Launch.Command = []string{"one", "$HOME"}
	req.Launch.Script = []byte("#!/bin/sh\necho \"$#\" \"$2\" \"$BURSAR_LABEL_user\" >" + out + "; id -un >>" + out + "\nexit 3\n\x00\xff\xfe")
	req.Launch.RequiredFiles, req.Launch.RequiredVariables = []string{"/bin/sh", p.dir}, []string{"HOME", "TOKEN", "BURSAR_LABEL_user"}
	req.Secrets = map[string]string{"TOKEN": "x"}
	res, err := alice.Engines().Start(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	waited, err := alice.Engines().Wait(t.Context(), &bursarv1.WaitRequest{Id: res.GetAllocation().GetId()})
	if err != nil || waited.GetAllocation().GetExitStatus().GetCode() != 3 || waited.GetAllocation().GetLaunch().GetProgram() != "script" {
		t.Errorf("%v, %v", waited, err)
	}
	if said := read(t, out); said != "2 $HOME alice\n"+remoteAccount+"\n" {
		t.Errorf("it said %q", said)
	}
	ran := filepath.Join(p.dir, "out", "ran")
	for name, test := range map[string]struct {
		change func(*bursarv1.LaunchSpec)
		words  string
	}{
		"a file":     {func(s *bursarv1.LaunchSpec) { s.RequiredFiles = []string{"/bin/sh", "/no/such/license"} }, `required_files[1]: "/no/such/license": no such file`},
		"a variable": {func(s *bursarv1.LaunchSpec) { s.RequiredVariables = []string{"LICENSE"} }, `"LICENSE": is not set`},
		"no text":    {func(s *bursarv1.LaunchSpec) { s.Command, s.Script = nil, []byte("touch "+ran+"\n") }, "script: \"\": exec format error"},
		"an own check": {func(s *bursarv1.LaunchSpec) {
			s.Ready = &bursarv1.Readiness{Check: &bursarv1.Readiness_Line{Line: &bursarv1.LineCheck{Pattern: "("}}}
		}, "readiness.line.pattern"},
	} {
		req := startOf("missing", "touch "+ran)
		req.Request.RequestId = ""
		test.change(req.Launch)
		_, err := alice.Engines().Start(t.Context(), req)
		a := failed(t, err)
		if !strings.Contains(err.Error(), test.words) || len(a.GetLaunch().GetTries()) != 1 || a.GetLaunch().GetTries()[0].GetExecuted() {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("it ran")
	}
}

// A launcher that starts its engine itself says how far it is: no agent looks.
func TestALauncherSaysHowFarItsEngineIs(t *testing.T) {
	t.Parallel()
	p := startPlace(t, settings{})
	e := p.confirmed("own")
	for _, phase := range []bursarv1.Phase{bursarv1.Phase_PHASE_STARTING, bursarv1.Phase_PHASE_READY} {
		request := &bursarv1.ConfirmRequest{Id: e.id, Process: &bursarv1.Process{Pid: int32(e.pid)}, Phase: phase}
		if _, err := p.local.Allocations().Confirm(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		list, err := p.remote.Allocations().List(t.Context(), &bursarv1.AllocationServiceListRequest{Phases: []bursarv1.Phase{phase}})
		if err != nil || len(list.GetAllocations()) != 1 || list.GetAllocations()[0].GetId() != e.id {
			t.Errorf("in %s: %v, %v", phase, list, err)
		}
	}
	// The agent starts anew, and says nothing else.
	p.agent.Signal(syscall.SIGKILL)
	<-p.agent.Ended()
	p.startAgent()
	eventually(t, "the agent has reported", func() error {
		hosts, err := p.remote.Hosts().List(t.Context(), &bursarv1.HostServiceListRequest{})
		if err == nil && hosts.GetHosts()[0].GetState() != bursarv1.HostState_HOST_STATE_HEALTHY {
			err = errNotYet
		}
		return err
	})
	now, err := p.remote.Allocations().Get(t.Context(), &bursarv1.AllocationServiceGetRequest{Id: e.id})
	if err != nil || now.GetAllocation().GetPhase() != bursarv1.Phase_PHASE_READY || now.GetAllocation().GetState() != active {
		t.Errorf("%v, %v", now, err)
	}
}

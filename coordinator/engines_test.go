package coordinator

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// orderedAgent is the agent of a host that carries out orders as a test says.
type orderedAgent struct {
	process *bursarv1.Process // that was started last
	*visitor

	host     string
	sequence uint64
	orders   chan *bursarv1.LaunchOrder
	signaled chan string // the allocations whose engines got a signal
}

// attach opens the stream of a host's agent.
func (c *authServer) attach(t *testing.T, member, host string) *orderedAgent {
	t.Helper()
	g := &orderedAgent{visitor: c.visit(t, member), host: host, sequence: 1, orders: make(chan *bursarv1.LaunchOrder, 16), signaled: make(chan string, 16)}
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := g.hosts.Attach(ctx, &bursarv1.AttachRequest{HostId: host, Incarnation: 1})
	if err != nil {
		t.Fatal(err)
	}
	if !stream.Receive() {
		t.Fatalf("no first message: %v", stream.Err())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for stream.Receive() {
			if order := stream.Msg().GetLaunch(); order != nil {
				g.orders <- order
			}
			if order := stream.Msg().GetSignal(); order != nil {
				g.signaled <- order.GetAllocationId()
				_, _ = g.hosts.Answer(ctx, &bursarv1.AnswerRequest{
					HostId: host, Incarnation: 1, AllocationId: order.GetAllocationId(), Number: order.GetNumber(), Result: &bursarv1.AnswerRequest_Signaled{Signaled: &bursarv1.SignalDone{}},
				})
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		_ = stream.Close()
		<-ended
	})
	return g
}

// next is the next order.
func (g *orderedAgent) next(t *testing.T) *bursarv1.LaunchOrder {
	t.Helper()
	select {
	case order := <-g.orders:
		return order
	case <-time.After(20 * time.Second):
		t.Fatalf("host %s gets no order", g.host)
		return nil
	}
}

func (g *orderedAgent) answer(order *bursarv1.LaunchOrder) *bursarv1.AnswerRequest {
	return &bursarv1.AnswerRequest{HostId: g.host, Incarnation: 1, AllocationId: order.GetAllocationId(), GrantRevision: order.GetGrantRevision()}
}

// started confirms the engine of an order, as a process.
func (g *orderedAgent) started(t *testing.T, order *bursarv1.LaunchOrder, pid int32) (*bursarv1.AnswerResponse, error) {
	t.Helper()
	answer := g.answer(order)
	g.process = &bursarv1.Process{Pid: pid, StartTime: 1}
	answer.Result = &bursarv1.AnswerRequest_Started{Started: &bursarv1.LaunchStarted{Process: g.process}}
	return g.hosts.Answer(t.Context(), answer)
}

func (g *orderedAgent) begun(t *testing.T, order *bursarv1.LaunchOrder) {
	t.Helper()
	answer := g.answer(order)
	answer.Result = &bursarv1.AnswerRequest_Begun{Begun: &bursarv1.LaunchBegun{LogDirectory: "/var/log/bursar/engines/" + order.GetAllocationId()}}
	if _, err := g.hosts.Answer(t.Context(), answer); err != nil {
		t.Error(err)
	}
}

func (g *orderedAgent) failed(t *testing.T, order *bursarv1.LaunchOrder, reason string) {
	t.Helper()
	answer := g.answer(order)
	answer.Result = &bursarv1.AnswerRequest_Failed{Failed: &bursarv1.LaunchFailed{Reason: reason, ErrorOutput: "last words", Fault: bursarv1.LaunchFault_LAUNCH_FAULT_NOT_FOUND, Process: g.process}}
	if _, err := g.hosts.Answer(t.Context(), answer); err != nil {
		t.Error(err)
	}
}

// report sends a heartbeat.
func (g *orderedAgent) report(t *testing.T, change func(*bursarv1.SyncRequest)) {
	t.Helper()
	g.sequence++
	r := &bursarv1.SyncRequest{HostId: g.host, Incarnation: 1, Sequence: g.sequence, Epoch: 1, BootId: "boot"}
	change(r)
	if _, err := g.hosts.Sync(t.Context(), r); err != nil {
		t.Error(err)
	}
}

func startRequest(id string) *bursarv1.StartRequest {
	return &bursarv1.StartRequest{
		Request: &bursarv1.AllocateRequest{RequestId: id, Labels: map[string]string{"user": "alice"}, Resource: memory(mib), Name: "nightly"},
		Launch:  &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/opt/spark/bin/spark-submit", "--secret-free"}, Environment: map[string]string{"A": "b"}},
	}
}

// begin calls Start, whose answer comes later.
func (v *visitor) begin(t *testing.T, req *bursarv1.StartRequest) (answer func() (*bursarv1.Allocation, error)) {
	t.Helper()
	type result struct {
		a   *bursarv1.Allocation
		err error
	}
	done := make(chan result, 1)
	go func() {
		res, err := v.engines.Start(t.Context(), req)
		done <- result{res.GetAllocation(), err}
	}()
	return func() (*bursarv1.Allocation, error) {
		select {
		case r := <-done:
			return r.a, r.err
		case <-time.After(30 * time.Second):
			return nil, errors.New("no answer within 30s")
		}
	}
}

func TestAnEngineIsStartedOnAHost(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	g := c.attach(t, "agent1", "h1")
	alice := c.visit(t, "alice")
	req := startRequest("job-1")
	req.Request.Host = &bursarv1.HostWishes{Id: "h1"}
	req.Secrets = map[string]string{"PASSWORD": "hunter2"}
	answer := alice.begin(t, req)
	order := g.next(t)
	spec, secrets := &bursarv1.LaunchSpec{}, &bursarv1.LaunchSecrets{}
	if err := errors.Join(proto.Unmarshal(order.GetSpec(), spec), proto.Unmarshal(order.GetSecrets(), secrets)); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(spec, req.GetLaunch()) || secrets.GetVariables()["PASSWORD"] != "hunter2" {
		t.Errorf("the order is for %v with %v", spec, secrets)
	}
	res, err := g.started(t, order, 100)
	if err != nil || res.GetAllocation().GetState() != active || len(res.GetAllocation().GetSeal()) == 0 {
		t.Fatalf("confirmed: %v, %v", res, err)
	}
	if _, err := g.started(t, order, 101); err == nil {
		t.Error("another process was confirmed")
	}
	g.begun(t, order)
	a, err := answer()
	if err != nil || a.GetHostId() != "h1" || a.GetProcess().GetPid() != 100 || a.GetName() != "nightly" || !a.GetProcess().GetLaunched() {
		t.Fatalf("%v, %v", a, err)
	}
	if l := a.GetLaunch(); l.GetAccount() != "etl" || l.GetProgram() != "spark-submit" || !strings.HasSuffix(l.GetLogDirectory(), a.GetId()) {
		t.Errorf("its launch is %v", l)
	}
	// The same call has the same engine, whatever its caller has heard of it.
	again, err := alice.begin(t, req)()
	if err != nil || again.GetId() != a.GetId() {
		t.Errorf("again: %v, %v", again, err)
	}
	other := startRequest("job-1")
	other.Launch.Command = []string{"rm"}
	if _, err := alice.engines.Start(t.Context(), other); connect.CodeOf(err) != connect.CodeAlreadyExists {
		t.Errorf("another command under the same request id: %v", err)
	}
	g.report(t, func(r *bursarv1.SyncRequest) {
		r.Ended = []*bursarv1.EngineEnd{{AllocationId: a.GetId(), ExitStatus: &bursarv1.ExitStatus{Code: new(int32(3))}, Reason: "exit code 3"}}
	})
	w, err := alice.engines.Wait(t.Context(), &bursarv1.WaitRequest{Id: a.GetId()})
	if err != nil || w.GetAllocation().GetExitStatus().GetCode() != 3 || w.GetTimedOut() {
		t.Errorf("waited for: %v, %v", w, err)
	}
	select {
	case order := <-g.orders:
		t.Errorf("another order: %v", order)
	default:
	}
}

func TestAStartGoesToAnotherHostIfNothingWasExecuted(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	agents := map[string]*orderedAgent{"h1": c.attach(t, "agent1", "h1"), "h2": c.attach(t, "agent2", "h2")}
	alice := c.visit(t, "alice")
	answer := alice.begin(t, startRequest("job-1"))
	var first, second *orderedAgent
	var order *bursarv1.LaunchOrder
	select {
	case order = <-agents["h1"].orders:
		first, second = agents["h1"], agents["h2"]
	case order = <-agents["h2"].orders:
		first, second = agents["h2"], agents["h1"]
	}
	first.failed(t, order, "no such account: etl")
	next := second.next(t)
	if _, err := first.started(t, order, 100); err == nil {
		t.Error("the engine of an earlier try was confirmed")
	}
	if _, err := second.started(t, next, 200); err != nil {
		t.Fatal(err)
	}
	second.begun(t, next)
	a, err := answer()
	if err != nil || a.GetHostId() != second.host || len(a.GetLaunch().GetTries()) != 1 {
		t.Fatalf("%v, %v", a, err)
	}
	if try := a.GetLaunch().GetTries()[0]; try.GetHostId() != first.host || try.GetExecuted() || try.GetReason() != "no such account: etl" || try.GetErrorOutput() != "last words" ||
		try.GetFault() != bursarv1.LaunchFault_LAUNCH_FAULT_NOT_FOUND {
		t.Errorf("the try is %v", try)
	}
	reader, err := c.visit(t, "reader").allocations.Get(t.Context(), &bursarv1.AllocationServiceGetRequest{Id: a.GetId()})
	if err != nil || reader.GetAllocation().GetLaunch().GetTries()[0].GetErrorOutput() != "" {
		t.Errorf("a reader sees %v, %v", reader, err)
	}
}

// A host whose file does not allow the engine is not asked again. The error names each try once.
func TestAStartThatEachHostRefusesNamesEachTryOnce(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	agents := map[string]*orderedAgent{"h1": c.attach(t, "agent1", "h1"), "h2": c.attach(t, "agent2", "h2")}
	alice := c.visit(t, "alice")
	for reason, want := range map[string]string{"account \"etl\" is denied": "account \"etl\" is denied", "": "its agent gives no reason", strings.Repeat("x", 600): "xxx"} {
		req := startRequest("job")
		req.Request.RequestId = ""
		answer := alice.begin(t, req)
		for range 2 {
			select {
			case order := <-agents["h1"].orders:
				agents["h1"].failed(t, order, reason)
			case order := <-agents["h2"].orders:
				agents["h2"].failed(t, order, reason)
			}
		}
		_, err := answer()
		expect(t, "refused by both", err, connect.CodeFailedPrecondition, want)
		for _, host := range []string{"on host h1: " + want, "on host h2: " + want} {
			if n := strings.Count(err.Error(), host); n != 1 {
				t.Errorf("%q is there %d times: %v", host, n, err)
			}
		}
	}
}

// An engine that is not ready is stopped. Without retries the caller hears so.
func TestAnEngineThatIsNotReadyFailsItsStart(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	g := c.attach(t, "agent1", "h1")
	alice := c.visit(t, "alice")
	for _, retries := range []int32{0, 1} {
		req := startRequest("job")
		req.Request.RequestId = ""
		req.Request.Host = &bursarv1.HostWishes{Id: "h1"}
		req.Launch.Ready, req.Retries = &bursarv1.Readiness{Check: &bursarv1.Readiness_Port{Port: 8080}}, retries
		answer := alice.begin(t, req)
		for range retries + 1 {
			order := g.next(t)
			if _, err := g.started(t, order, 100); err != nil {
				t.Fatal(err)
			}
			g.begun(t, order)
			g.report(t, func(r *bursarv1.SyncRequest) {
				r.Engines = []*bursarv1.EngineReport{{AllocationId: order.GetAllocationId(), Phase: bursarv1.Phase_PHASE_FAILED, PhaseReason: "nothing listens on port 8080"}}
			})
			g.report(t, func(r *bursarv1.SyncRequest) {
				r.Ended = []*bursarv1.EngineEnd{{AllocationId: order.GetAllocationId(), ExitStatus: &bursarv1.ExitStatus{Signal: 15}, Reason: "not ready: nothing listens on port 8080"}}
			})
		}
		_, err := answer()
		expect(t, "not ready", err, connect.CodeFailedPrecondition, "nothing listens on port 8080")
	}
}

func TestWhoMayStartEngines(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	ctx := t.Context()
	for name, v := range map[string]struct {
		visitor *visitor
		words   string
	}{
		"an admin":         {c.visit(t, "root"), "root may not have engines launched as the account"},
		"an operator":      {c.visit(t, "ops"), "ops may not have engines launched"},
		"a reader":         {c.visit(t, "reader"), "may not call"},
		"an agent":         {c.visit(t, "agent1"), "may not call"},
		"through an agent": {c.visit(t, "agent1", identity.Actor{Name: "alice@h1", Users: []string{"alice"}, MayLaunch: []string{"etl"}}), "agent1 may not call"},
	} {
		_, err := v.visitor.engines.Start(ctx, startRequest("r"))
		expect(t, name, err, connect.CodePermissionDenied, v.words)
	}
	alice := c.visit(t, "alice")
	for field, change := range map[string]func(*bursarv1.StartRequest){
		"launch.account":    func(r *bursarv1.StartRequest) { r.Launch.Account = "root" },
		"launch.command":    func(r *bursarv1.StartRequest) { r.Launch.Command = nil },
		"launch.command[0]": func(r *bursarv1.StartRequest) { r.Launch.Command[0] = "" },
		"retries":           func(r *bursarv1.StartRequest) { r.Retries = 1 },
		"launch": func(r *bursarv1.StartRequest) {
			r.Launch.Environment["X"] = strings.Repeat("x", 65000)
			r.Launch.Script = make([]byte, 2000)
		},
		"secrets[A]":               func(r *bursarv1.StartRequest) { r.Secrets = map[string]string{"A": "b"} },
		"request.async":            func(r *bursarv1.StartRequest) { r.Secrets = map[string]string{"B": "b"}; r.Request.Async = true },
		"request.confirms_process": func(r *bursarv1.StartRequest) { r.Request.ConfirmsProcess = true },
		"request.resource":         func(r *bursarv1.StartRequest) { r.Request.Resource = nil },
		"launch.required_files[0]": func(r *bursarv1.StartRequest) { r.Launch.RequiredFiles = []string{"relative"} },
		"launch.working_directory": func(r *bursarv1.StartRequest) { r.Launch.WorkingDirectory = "relative" },
	} {
		req := startRequest("r")
		change(req)
		_, err := alice.engines.Start(ctx, req)
		if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v; want it refused by its name", field, err)
		}
	}
	other := startRequest("r")
	other.Launch.Account = "postgres"
	_, err := alice.engines.Start(ctx, other)
	expect(t, "another account", err, connect.CodePermissionDenied, `"postgres"`)

	// Nobody but a host's agent has its orders.
	for name, v := range map[string]*visitor{"another agent": c.visit(t, "agent2"), "a submitter": alice, "an operator": c.visit(t, "ops")} {
		stream, err := v.hosts.Attach(ctx, &bursarv1.AttachRequest{HostId: "h1", Incarnation: 9})
		if err == nil {
			if stream.Receive() {
				t.Errorf("%s is attached", name)
			}
			err = stream.Err()
		}
		expect(t, name, err, connect.CodePermissionDenied, "may not")
		_, err = v.hosts.Answer(ctx, &bursarv1.AnswerRequest{HostId: "h1", AllocationId: "x", Result: &bursarv1.AnswerRequest_Begun{}})
		expect(t, name, err, connect.CodePermissionDenied, "may not")
	}
}

// What is to be executed, and secrets, are in no answer, log or file but the launch's row, which is
// deleted when the engine has begun.
func TestWhereACommandIs(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	alice := c.visit(t, "alice")
	req := startRequest("job-1")
	req.Request.Async, req.Request.Host = true, &bursarv1.HostWishes{Id: "h1"}
	req.Launch.Environment["TOKEN"] = "environment-secret"
	res, err := alice.engines.Start(t.Context(), req)
	if err != nil || res.GetAllocation().GetState() != reserved {
		t.Fatalf("%v, %v", res, err)
	}
	g := c.attach(t, "agent1", "h1") // it comes later
	order := g.next(t)
	list, err := alice.allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{Name: "nightly"})
	if err != nil || len(list.GetAllocations()) != 1 || strings.Contains(list.String(), "secret") {
		t.Errorf("listed: %v, %v", list, err)
	}
	if _, err := g.started(t, order, 100); err != nil {
		t.Fatal(err)
	}
	g.begun(t, order)
	w, err := alice.engines.Wait(t.Context(), &bursarv1.WaitRequest{Id: order.GetAllocationId(), Ready: true})
	if err != nil || w.GetAllocation().GetState() != active || w.GetTimedOut() {
		t.Fatalf("%v, %v", w, err)
	}
	w, err = alice.engines.Wait(t.Context(), &bursarv1.WaitRequest{Id: order.GetAllocationId(), Timeout: seconds(1)})
	if err != nil || !w.GetTimedOut() || w.GetAllocation().GetId() != order.GetAllocationId() {
		t.Errorf("its end, for a second: %v, %v", w, err)
	}
	c.stop()
	for _, file := range []string{"audit.log", "identities.yaml"} {
		content, err := os.ReadFile(filepath.Join(c.dir, file))
		if err != nil {
			t.Fatal(err)
		}
		text := string(content)
		if strings.Contains(text, "environment-secret") || strings.Contains(text, "secret-free") {
			t.Errorf("%s has the command", file)
		}
	}
}

package orders

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/hoststate"
	"github.com/bursar/bursar/agent/loops"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/osuser"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// coordinator plays the leader: it sends what a test puts into orders, and keeps the answers.
type coordinator struct {
	bursarv1connect.UnimplementedHostServiceHandler

	orders   chan *bursarv1.AttachResponse
	attached chan struct{} // has one element for each stream
	attach   atomic.Pointer[bursarv1.AttachRequest]
	answers  chan *bursarv1.AnswerRequest
	refuse   error        // what it answers to LaunchStarted
	breaks   atomic.Int64 // how many answers it does not take whole: the connection breaks
}

func (c *coordinator) Attach(ctx context.Context, from *bursarv1.AttachRequest, stream *connect.ServerStream[bursarv1.AttachResponse]) error {
	c.attach.Store(from)
	if err := stream.Send(&bursarv1.AttachResponse{Epoch: 5}); err != nil {
		return err
	}
	c.attached <- struct{}{}
	for {
		select {
		case order := <-c.orders:
			if err := stream.Send(order); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *coordinator) Answer(_ context.Context, req *bursarv1.AnswerRequest) (*bursarv1.AnswerResponse, error) {
	if c.breaks.Add(-1) >= 0 {
		panic(http.ErrAbortHandler)
	}
	c.answers <- req
	started := req.GetStarted()
	if started == nil {
		return &bursarv1.AnswerResponse{}, nil
	}
	if c.refuse != nil {
		return nil, c.refuse
	}
	return &bursarv1.AnswerResponse{Allocation: &bursarv1.Allocation{
		Id: req.GetAllocationId(), HostId: "h1", State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, Process: started.GetProcess(), Revision: 9,
	}}, nil
}

// sender keeps what it was to send.
type sender struct {
	sends chan *bursarv1.SendOutputOrder
	stops chan *bursarv1.StopSendingOrder
}

func (s sender) Send(_ context.Context, order *bursarv1.SendOutputOrder) { s.sends <- order }
func (s sender) Stop(order *bursarv1.StopSendingOrder)                   { s.stops <- order }
func (sender) Wait()                                                     {}

// accounts are those of the machine. Its groups are 27 (sudo), and those of tests.
type accounts map[string]osuser.User

func (a accounts) NamedWhole(_ context.Context, name string) (osuser.User, error) {
	user, there := a[name]
	if !there {
		return user, osuser.ErrNoUser
	}
	return user, nil
}

// NameOf implements Users: the least name of a uid is the one that the machine knows.
func (a accounts) NameOf(_ context.Context, uid uint32) (string, error) {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name].UID == uid {
			return a[name].Name, nil
		}
	}
	return "", osuser.ErrNoUser
}

func (accounts) GIDsOf(_ context.Context, group string) ([]uint32, error) {
	if group != "sudo" {
		return nil, osuser.ErrNoGroup
	}
	return []uint32{27}, nil
}

func (accounts) GroupNames(context.Context, osuser.User) ([]string, []uint32, error) {
	return nil, nil, nil
}

type rig struct {
	*coordinator
	*engines

	taker  *Taker
	sender sender
	log    *records
}

// newRig runs a taker of host h1, which has got the reservation "granted", in epoch 5.
func newRig(t *testing.T, policy Policy) *rig {
	t.Helper()
	c := &coordinator{orders: make(chan *bursarv1.AttachResponse), attached: make(chan struct{}, 64), answers: make(chan *bursarv1.AnswerRequest, 64)}
	mux := http.NewServeMux()
	mux.Handle(bursarv1connect.NewHostServiceHandler(c))
	server := httptest.NewServer(mux)
	now := time.Now()
	state := hoststate.New(slog.New(slog.DiscardHandler), func() string { return "h1" }, func(time.Duration, error) {})
	state.Open(nil, "boot-1", 3)
	known := tracker.New(now, tracker.Host{ID: "h1", BootID: "boot-1", Incarnation: 3}, tracker.Snapshot{Epoch: 5})
	state.Begin(known)
	room := int64(8 << 30)
	state.Locked(func(known *tracker.Tracker) {
		known.Measure(now, tracker.Measurement{Sample: &bursarv1.HostSample{MemoryTotalBytes: &room, MemoryAvailableBytes: &room, MemorySafetyBytes: new(int64)}})
		for id, launch := range map[string]*bursarv1.Launch{"granted": {Account: "etl", Program: "true"}, "plain": nil} {
			if verdict := known.Observe(now, &bursarv1.Allocation{
				Id: id, HostId: "h1", State: bursarv1.AllocationState_ALLOCATION_STATE_RESERVED, Revision: 4, Launch: launch, Labels: map[string]string{"user": "alice", "a/b.c": "d"},
				Caller: "alice", Entitled: &bursarv1.Resource{MemoryBytes: new(int64(1 << 20))}, Requested: &bursarv1.Resource{MemoryBytes: new(int64(1 << 20))},
			}, 5); verdict != tracker.Held {
				t.Fatalf("the reservation %s is not held: %d", id, verdict)
			}
		}
	})
	r := &rig{coordinator: c, engines: &engines{stops: make(chan *bursarv1.StopOrder, 4), signals: make(chan string, 4)}, log: &records{}, sender: sender{make(chan *bursarv1.SendOutputOrder, 4), make(chan *bursarv1.StopSendingOrder, 4)}}
	r.taker = New(Options{
		HostID: func() string { return "h1" }, State: state, Hosts: bursarv1connect.NewHostServiceClient(server.Client(), server.URL), Engines: r.engines,
		Users: accounts{
			"etl": {Name: "etl", UID: 1200, GID: 1200, Groups: []uint32{50}}, "admin": {Name: "admin", UID: 1300, GID: 1300, Groups: []uint32{27}},
			"toor": {Name: "toor", UID: 0}, "daemon": {Name: "daemon", UID: 2}, "gateway": {Name: "gateway", UID: 1400}, "alias": {Name: "etl", UID: 1200},
			"agent": {Name: "agent", UID: 1500}, "gatewaz": {Name: "gatewaz", UID: 1400}, "numbered": {Name: "numbered", UID: 1600},
		},
		Policy: func() Policy { return policy }, SyncDue: loops.NewWakeup(now), Elsewhere: func() {}, Sender: r.sender, Log: slog.New(slog.NewTextHandler(r.log, nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.taker.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		server.CloseClientConnections()
		server.Close()
	})
	return r
}

func standard() Policy {
	return Policy{Accounts: []string{"etl", "admin", "toor", "daemon", "gateway", "alias", "ghost", "agent", "gatewaz", "numbered"}, MinUID: 1000, DeniedGroups: []string{"sudo"}, Trusted: []string{"gateway", "1600"}, AgentUID: 1500}
}

func orderOf(t *testing.T, id string, spec *bursarv1.LaunchSpec, secrets ...string) *bursarv1.AttachResponse {
	t.Helper()
	order := &bursarv1.LaunchOrder{AllocationId: id, GrantRevision: 4}
	var err error
	if order.Spec, err = proto.Marshal(spec); err != nil {
		t.Fatal(err)
	}
	variables := make(map[string]string)
	for i := 0; i < len(secrets); i += 2 {
		variables[secrets[i]] = secrets[i+1]
	}
	if order.Secrets, err = proto.Marshal(&bursarv1.LaunchSecrets{Variables: variables}); err != nil {
		t.Fatal(err)
	}
	return &bursarv1.AttachResponse{Epoch: 5, Order: &bursarv1.AttachResponse_Launch{Launch: order}}
}

func (r *rig) next(t *testing.T) *bursarv1.AnswerRequest {
	t.Helper()
	select {
	case answer := <-r.answers:
		return answer
	case <-time.After(30 * time.Second):
		t.Fatal("no answer")
		return nil
	}
}

func TestAnOrderIsCarriedOutOnce(t *testing.T) {
	r := newRig(t, standard())
	spec := &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true", "x"}, Environment: map[string]string{"A": "b"}, RequiredVariables: []string{"A", "TOKEN"}, RequiredFiles: []string{"/srv/x"}, WorkingDirectory: "/srv"}
	spec.Script, spec.Ready = []byte("#!/bin/sh"), &bursarv1.Readiness{Check: &bursarv1.Readiness_Port{Port: 80}}
	r.orders <- orderOf(t, "granted", spec, "TOKEN", "hunter2")
	if started := r.next(t); started.GetStarted().GetProcess().GetPid() != 7 || started.GetHostId() != "h1" || started.GetIncarnation() != 3 || started.GetGrantRevision() != 4 {
		t.Errorf("started: %v", started)
	}
	begun := r.next(t)
	if begun.GetBegun().GetLogDirectory() != "/log/granted" {
		t.Errorf("begun: %v", begun)
	}
	r.orders <- orderOf(t, "granted", spec, "TOKEN", "hunter2") // its answer was lost
	if again := r.next(t); !proto.Equal(again, begun) {
		t.Errorf("answered again: %v", again)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.launched) != 1 {
		t.Fatalf("launched %d times", len(r.launched))
	}
	l := r.launched[0]
	if l.User.UID != 1200 || l.Request.GetCommand()[1] != "x" || l.Request.GetWorkingDirectory() != "/srv" || l.Caller != "alice" {
		t.Errorf("launched: %+v", l)
	}
	if string(l.Script) != "#!/bin/sh" || l.Ready.GetPort() != 80 || len(l.RequiredVariables) != 2 || len(l.RequiredFiles) != 1 {
		t.Errorf("launched without a part of its spec: %+v", l)
	}
	for name, want := range map[string]string{"A": "b", "TOKEN": "hunter2", "BURSAR_LABEL_user": "alice", "BURSAR_LABEL_a_b_c": "d"} {
		if got := l.Request.GetEnvironment()[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// A coordinator that lies runs nothing that the agent's own file does not allow, and nothing that
// did not come as a grant with the agent's own heartbeat.
func TestALyingCoordinatorRunsNothing(t *testing.T) {
	policy := standard()
	policy.Programs = []string{"/bin/true"}
	r := newRig(t, policy)
	revision := uint64(100)
	for name, c := range map[string]struct {
		id    string
		spec  *bursarv1.LaunchSpec
		words string
	}{
		"an account that is not listed":       {"granted", &bursarv1.LaunchSpec{Account: "postgres", Command: []string{"/bin/true"}}, "launches nothing as it"},
		"root by another name":                {"granted", &bursarv1.LaunchSpec{Account: "toor", Command: []string{"/bin/true"}}, "uid 0"},
		"an account of the system":            {"granted", &bursarv1.LaunchSpec{Account: "daemon", Command: []string{"/bin/true"}}, "engines.remote.minUserId"},
		"a member of a denied group":          {"granted", &bursarv1.LaunchSpec{Account: "admin", Command: []string{"/bin/true"}}, "engines.remote.deniedGroups"},
		"a trusted caller":                    {"granted", &bursarv1.LaunchSpec{Account: "gateway", Command: []string{"/bin/true"}}, "trustedUsers"},
		"a trusted caller's uid":              {"granted", &bursarv1.LaunchSpec{Account: "gatewaz", Command: []string{"/bin/true"}}, "trustedUsers"},
		"a trusted uid":                       {"granted", &bursarv1.LaunchSpec{Account: "numbered", Command: []string{"/bin/true"}}, "trustedUsers"},
		"the agent's own account":             {"granted", &bursarv1.LaunchSpec{Account: "agent", Command: []string{"/bin/true"}}, "the agent's own"},
		"an account that is another's alias":  {"granted", &bursarv1.LaunchSpec{Account: "alias", Command: []string{"/bin/true"}}, "launches nothing as it"},
		"an account that is not there":        {"granted", &bursarv1.LaunchSpec{Account: "ghost", Command: []string{"/bin/true"}}, "not on this host"},
		"another program":                     {"granted", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/sh"}}, "engines.remote.programs"},
		"a program by another path":           {"granted", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/../bin/true"}}, "engines.remote.programs"},
		"a program by its name":               {"granted", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"true"}}, "engines.remote.programs"},
		"no program":                          {"granted", &bursarv1.LaunchSpec{Account: "etl"}, "no program"},
		"a variable with an equals sign":      {"granted", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true"}, Environment: map[string]string{"A=B": "c"}}, "environment"},
		"a variable with a blank":             {"granted", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true"}, Environment: map[string]string{"A B": "c"}}, `environment has the name "A B"`},
		"a relative working directory":        {"granted", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true"}, WorkingDirectory: "srv"}, "working_directory"},
		"a script":                            {"granted", &bursarv1.LaunchSpec{Account: "etl", Script: []byte("#!/bin/sh\n")}, "script"},
		"a grant that its caller is to start": {"plain", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true"}}, "its caller starts"},
		"a readiness with another program": {"granted", &bursarv1.LaunchSpec{
			Account: "etl", Command: []string{"/bin/true"}, Ready: &bursarv1.Readiness{Check: &bursarv1.Readiness_Command{Command: &bursarv1.CommandCheck{Command: []string{"/bin/sh", "-c", "id"}}}},
		}, "engines.remote.programs"},
		"a script that is too large":       {"granted", &bursarv1.LaunchSpec{Account: "etl", Script: make([]byte, 61441)}, "at most 61440"},
		"a required file of no root":       {"granted", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true"}, RequiredFiles: []string{"/etc", "etc"}}, "required_files[1]"},
		"a required file with a zero":      {"granted", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true"}, RequiredFiles: []string{"/e\x00tc"}}, "required_files[0]"},
		"too many files that are required": {"granted", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true"}, RequiredFiles: make([]string, 257)}, "required_files has 257"},
	} {
		order := orderOf(t, c.id, c.spec)
		revision++
		order.GetLaunch().GrantRevision = revision // each is another order
		r.orders <- order
		answer := r.next(t)
		if reason := answer.GetFailed().GetReason(); answer.GetFailed() == nil || !strings.Contains(reason, c.words) {
			t.Errorf("%s: %v; want it refused with %q", name, answer, c.words)
		}
	}
	garbage := orderOf(t, "granted", &bursarv1.LaunchSpec{})
	garbage.GetLaunch().Spec = []byte("\xff\xff")
	r.orders <- garbage
	if answer := r.next(t); answer.GetFailed() == nil {
		t.Errorf("garbage: %v", answer)
	}
	if n := r.count(); n != 0 {
		t.Errorf("%d engines were launched", n)
	}
}

// An order for an allocation that did not come with a heartbeat waits for one, and is refused.
func TestAGrantComesWithTheHostsOwnHeartbeat(t *testing.T) {
	r := newRig(t, standard())
	r.orders <- orderOf(t, "invented", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true"}})
	if reason := r.next(t).GetFailed().GetReason(); !strings.Contains(reason, "did not come with this host's heartbeat") || r.count() != 0 {
		t.Errorf("%q, %d launched", reason, r.count())
	}
}

// Nothing of an epoch that is over is carried out.
func TestAnOldLeadersOrdersAreNotCarriedOut(t *testing.T) {
	r := newRig(t, standard())
	<-r.attached
	old := orderOf(t, "granted", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true"}})
	old.Epoch = 4
	r.orders <- old
	now := orderOf(t, "granted", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true"}})
	<-r.attached // another stream: the agent has ended the first
	r.orders <- now
	if started := r.next(t); started.GetStarted() == nil {
		t.Errorf("%v", started)
	}
	r.next(t)
	if n := r.count(); n != 1 {
		t.Errorf("launched %d times", n)
	}
}

func TestARefusedConfirmationIsAFailedTry(t *testing.T) {
	r := newRig(t, standard())
	r.refuse = connect.NewError(connect.CodeFailedPrecondition, errors.New("it was stopped"))
	r.orders <- orderOf(t, "granted", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true"}})
	r.next(t)
	answer := r.next(t)
	if pid := answer.GetFailed().GetProcess().GetPid(); pid != 7 {
		t.Errorf("the answer names process %d: want the one that has executed nothing", pid)
	}
	if !strings.Contains(answer.GetFailed().GetReason(), "it was stopped") {
		t.Errorf("%v", answer)
	}
}

// A connection that breaks says nothing of the launch: the agent answers again.
func TestAnAnswerWhoseConnectionBreaksIsRepeated(t *testing.T) {
	r := newRig(t, standard())
	r.breaks.Store(2)
	r.orders <- orderOf(t, "granted", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true"}})
	if started := r.next(t); started.GetStarted() == nil {
		t.Fatalf("%v", started)
	}
	r.breaks.Store(1)
	if begun := r.next(t); begun.GetBegun() == nil || r.count() != 1 {
		t.Errorf("%v, %d launched", begun, r.count())
	}
}

func TestStopsComeAtOnce(t *testing.T) {
	r := newRig(t, standard())
	r.orders <- &bursarv1.AttachResponse{Epoch: 5, Order: &bursarv1.AttachResponse_Stop{Stop: &bursarv1.StopOrder{AllocationId: "granted"}}}
	select {
	case order := <-r.stops:
		if order.GetAllocationId() != "granted" {
			t.Errorf("%v", order)
		}
	case <-time.After(30 * time.Second):
		t.Error("no stop")
	}
}

// Without accounts the stream says so, and nothing is launched.
func TestRemoteLaunchIsOffByDefault(t *testing.T) {
	r := newRig(t, Policy{})
	if r.attach.Load().GetLaunches() {
		t.Error("the agent says that its host allows launches")
	}
	r.orders <- orderOf(t, "granted", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"true"}})
	if answer := r.next(t); !strings.Contains(answer.GetFailed().GetReason(), "launches nothing") || r.count() != 0 {
		t.Errorf("%v, %d launched", answer, r.count())
	}
}

// Output is for hosts that allow no launches, too.
func TestOrdersAboutOutputArePassedOn(t *testing.T) {
	r := newRig(t, Policy{})
	send := &bursarv1.SendOutputOrder{Logs: &bursarv1.LogsRequest{Id: "granted"}, Url: "http://c", Ticket: []byte("t"), Reader: "alice"}
	r.orders <- &bursarv1.AttachResponse{Epoch: 5, Order: &bursarv1.AttachResponse_SendOutput{SendOutput: send}}
	if got := <-r.sender.sends; !proto.Equal(got, send) {
		t.Errorf("%v", got)
	}
	r.orders <- &bursarv1.AttachResponse{Epoch: 5, Order: &bursarv1.AttachResponse_StopSending{StopSending: &bursarv1.StopSendingOrder{Ticket: []byte("t")}}}
	if got := <-r.sender.stops; string(got.GetTicket()) != "t" {
		t.Errorf("%v", got)
	}
}

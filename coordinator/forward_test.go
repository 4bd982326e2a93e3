package coordinator

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

func TestAnyCoordinatorTakesAnyCall(t *testing.T) {
	m := startTeam(t, 3)
	leader, standbys := m.led()
	standbys[0].host("h", gib)
	a := standbys[0].allocate(request("once", gib/2))
	if b := standbys[1].allocate(request("once", gib/2)); b.GetId() != a.GetId() {
		t.Errorf("the same request at another coordinator got %s, not %s", b.GetId(), a.GetId())
	}
	if b := leader.get(a.GetId()); b.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED {
		t.Errorf("at the leader it is %s", b.GetState())
	}
	_, err := standbys[0].allocations.Allocate(t.Context(), request("too-much", gib))
	if insufficient, ok := detail[*bursarv1.InsufficientResources](err); !ok || connect.CodeOf(err) != connect.CodeResourceExhausted || len(insufficient.GetShortfalls()) == 0 {
		t.Errorf("a refusal passed back is %v, want the leader's with its detail", err)
	}
	overGRPC := bursarv1connect.NewClusterServiceClient(h2cClient(), standbys[0].url, connect.WithGRPC())
	status, err := overGRPC.Status(t.Context(), &bursarv1.StatusRequest{})
	if err != nil || !status.GetIsLeader() || status.GetUrl() != leader.url || status.GetReserved() != 1 {
		t.Errorf("status over gRPC through a standby: %v, %v", status, err)
	}
	if code, body := standbys[1].fetch(http.MethodPost, "/bursar.v1.AllocationService/Get", `{"id":"`+a.GetId()+`"}`, "Content-Type", "application/json"); code != http.StatusOK {
		t.Errorf("JSON through a standby: %d %s", code, body)
	}
	standbys[0].release(a.GetId())
	leader.audited()
	for _, f := range m.members {
		if code := f.probed(); code != http.StatusOK {
			t.Errorf("%s is not ready: %d", f.url, code)
		}
	}
}

func h2cClient() *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{Protocols: protocols}}
}

func TestTheCallersNameGoesWithTheCall(t *testing.T) {
	m := startTeam(t, 2)
	leader, standbys := m.led()
	leader.host("h", gib)
	as := func(name string) context.Context {
		ctx, info := connect.NewClientContext(t.Context())
		info.RequestHeader().Set(identity.Header, identity.Actor{Name: name, Anyone: true}.Encode())
		return ctx
	}
	res, err := standbys[0].allocations.Allocate(as("alice@h"), request("r", 1))
	if err != nil {
		t.Fatal(err)
	}
	if caller := res.GetAllocation().GetCaller(); caller != "alice@h" {
		t.Errorf("the leader takes it for %q's", caller)
	}
	if _, err := leader.allocations.Get(as("alice@h"), &bursarv1.AllocationServiceGetRequest{RequestId: "r"}); err != nil {
		t.Errorf("alice does not find her request at the leader: %v", err)
	}
	if _, err := standbys[0].allocations.Get(as("bob@h"), &bursarv1.AllocationServiceGetRequest{RequestId: "r"}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("bob finds alice's request: %v", err)
	}
}

func TestAWaitEndsWithItsCallersDeadlineThroughAStandby(t *testing.T) {
	m := startTeam(t, 2)
	leader, standbys := m.led()
	leader.host("h", gib)
	leader.allocate(request("all", gib))
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	waiting := request("waits", gib)
	waiting.Wait = seconds(60)
	if _, err := standbys[0].allocations.Allocate(ctx, waiting); connect.CodeOf(err) != connect.CodeDeadlineExceeded {
		t.Errorf("got %v, want DEADLINE_EXCEEDED", err)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	go func() {
		eventually(t, "it waits", func() bool { return leader.status().GetWaiting() == 2 })
		hangUp()
	}()
	waiting = request("", gib)
	waiting.Wait = seconds(60)
	if _, err := standbys[0].allocations.Allocate(ctx, waiting); connect.CodeOf(err) != connect.CodeCanceled {
		t.Errorf("got %v, want CANCELED", err)
	}
	eventually(t, "nobody waits for a caller that hung up at a standby", func() bool {
		list, err := leader.allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{
			States: []bursarv1.AllocationState{bursarv1.AllocationState_ALLOCATION_STATE_CANCELED},
		})
		return err == nil && slices.ContainsFunc(list.GetAllocations(), func(a *bursarv1.Allocation) bool { return a.GetRequestId() == "" })
	})
}

func TestStreamsArePassedOnAndEndWithTheLeadership(t *testing.T) {
	m := startTeam(t, 2)
	leader, standbys := m.led()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	stream, err := standbys[0].allocations.Watch(ctx, &bursarv1.AllocationServiceWatchRequest{})
	if err != nil || !stream.Receive() {
		t.Fatal(err, stream.Err())
	}
	leader.host("h", gib)
	a := leader.allocate(request("r", 1))
	if !stream.Receive() || stream.Msg().GetAllocation().GetId() != a.GetId() {
		t.Fatalf("the stream through a standby has %v, %v", stream.Msg(), stream.Err())
	}
	m.bar(leader.url, true)
	m.takeAway()
	for stream.Receive() {
		t.Errorf("more: %v", stream.Msg())
	}
	if code := connect.CodeOf(stream.Err()); code != connect.CodeUnavailable {
		t.Errorf("the stream ended with %v, want UNAVAILABLE, so that the watcher looks for the new leader", stream.Err())
	}
}

func TestTwoThatTakeEachOtherForTheLeaderDoNotPlayBall(t *testing.T) {
	m := startTeam(t, 2)
	m.bar(m.members[0].url, true)
	m.bar(m.members[1].url, true)
	m.takeAway()
	for i, f := range m.members {
		other := m.members[1-i].url
		m.pin(f, other)
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_, err := m.members[0].allocations.Allocate(ctx, request("r", 1))
	if connect.CodeOf(err) != connect.CodeUnavailable || ctx.Err() != nil {
		t.Errorf("got %v, want UNAVAILABLE at once", err)
	}
}

// pin has a coordinator believe that the one at another URL leads, and waits until it does.
func (m *team) pin(f *fixture, url string) {
	m.t.Helper()
	m.mu.Lock()
	m.pinned[f.url] = url
	m.changedLocked()
	m.mu.Unlock()
	eventually(m.t, "it takes another for the leader", func() bool { return f.server.peers.Route().URL == url })
}

func TestACallToALeaderThatHangsEndsWhenAnotherIsElected(t *testing.T) {
	t.Parallel() // it waits
	held := make(chan struct{})
	m := startTeam(t, 3, func(_ int, s store.Store) store.Store { return &heldStore{Store: s, held: held} })
	defer close(held)
	leader, standbys := m.led()
	m.bar(standbys[0].url, true)
	answered := make(chan error, 1)
	go func() {
		_, err := standbys[0].allocations.Allocate(context.WithoutCancel(t.Context()), request("r", 1))
		answered <- err
	}()
	eventually(t, "its commit hangs", func() bool {
		select {
		case held <- struct{}{}:
			return true
		default:
			return false
		}
	})
	m.bar(leader.url, true)
	m.bar(standbys[1].url, false)
	m.takeAway()
	select {
	case err := <-answered:
		if connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("got %v, want UNAVAILABLE", err)
		}
	case <-time.After(soon):
		t.Fatal("the call still hangs at the old leader")
	}
}

// heldStore commits when it is let, twice for every commit: once so that the test knows, and once
// for good.
type heldStore struct {
	store.Store

	held chan struct{}
}

func (s *heldStore) Commit(ctx context.Context, b store.Batch) error {
	<-s.held
	<-s.held
	if err := s.Store.Commit(ctx, b); err != nil {
		return err
	}
	return errors.Join(ctx.Err())
}

func TestAStandbyThatCannotReachTheLeaderSaysSoInTime(t *testing.T) {
	t.Parallel() // it waits
	m := startTeam(t, 2)
	_, standbys := m.led()
	full := fullListener(t)
	f := standbys[0]
	m.pin(f, full)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_, err := f.allocations.Allocate(ctx, request("r", 1))
	if connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("got %v, want UNAVAILABLE, so that the caller tries another one", err)
	}
}

// fullListener is the URL of a listener that takes no more connections: what is sent to it gets no
// answer.
func fullListener(t *testing.T) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := errors.Join(syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(socket, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(socket)
	bound, ok := name.(*syscall.SockaddrInet4)
	if err != nil || !ok {
		t.Fatal(err, name)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.Port))
	for range 8 {
		conn, err := (&net.Dialer{Timeout: 200 * time.Millisecond}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			break // full
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	return "http://" + address
}

func TestALeaderThatDoesNotKnowAStandbyIsNotItsCallersFault(t *testing.T) {
	strange := connect.NewError(connect.CodeUnauthenticated, errors.New("who are you"))
	f := ledBy(t, func(w http.ResponseWriter, r *http.Request) { _ = connect.NewErrorWriter().Write(w, r, strange) })
	if _, err := f.allocations.Allocate(t.Context(), request("r", 1)); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("got %v, want UNAVAILABLE, so that the caller tries another one", err)
	}
}

// A signal must not be sent twice. If the leader may have ordered it before it ended, the standby
// does not answer UNAVAILABLE, after which clients repeat the call.
func TestASignalThatTheLeaderMayHaveOrderedIsNotRepeated(t *testing.T) {
	var calls atomic.Int32
	f := ledBy(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == bursarv1connect.EngineServiceSignalProcedure {
			calls.Add(1)
		}
		panic(http.ErrAbortHandler)
	})
	c, err := client.New(f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Engines().Signal(t.Context(), &bursarv1.SignalRequest{Id: "a1", Signal: bursarv1.Signal_SIGNAL_USR1})
	if connect.CodeOf(err) != connect.CodeDeadlineExceeded || !strings.Contains(err.Error(), "the signal may have been sent, or not") || calls.Load() != 1 {
		t.Errorf("%v after %d calls, want one, whose effect is not known", err, calls.Load())
	}
}

// A leader that cannot be reached has ordered nothing: the client goes on.
func TestASignalThatNoLeaderHasGotMayBeRepeated(t *testing.T) {
	m := startTeam(t, 2)
	_, standbys := m.led()
	nobody, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = nobody.Close()
	m.pin(standbys[0], "http://"+nobody.Addr().String())
	_, err = bursarv1connect.NewEngineServiceClient(http.DefaultClient, standbys[0].url).Signal(t.Context(), &bursarv1.SignalRequest{Id: "a1", Signal: bursarv1.Signal_SIGNAL_USR1})
	if connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
}

// A leader that is replaced while it has a signal may have ordered it.
func TestASignalAtALeaderThatIsReplacedIsNotRepeated(t *testing.T) {
	t.Parallel() // it waits
	has, ends := make(chan struct{}), make(chan struct{})
	m := startTeam(t, 2)
	_, standbys := m.led()
	f := m.ledBy(t, standbys[0], func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == bursarv1connect.EngineServiceSignalProcedure {
			close(has)
			<-ends
		}
	})
	answered := make(chan error, 1)
	go func() {
		_, err := bursarv1connect.NewEngineServiceClient(http.DefaultClient, f.url).Signal(context.WithoutCancel(t.Context()), &bursarv1.SignalRequest{Id: "a1", Signal: bursarv1.Signal_SIGNAL_USR1})
		answered <- err
	}()
	<-has
	m.pin(f, "http://127.0.0.1:9")
	err := <-answered
	close(ends)
	if connect.CodeOf(err) != connect.CodeDeadlineExceeded || !strings.Contains(err.Error(), "may have been sent") {
		t.Errorf("got %v, want that it may have been sent", err)
	}
}

// During an upgrade the version before may lead. Its server does not know the path of a call that
// is new. If it does not know one that every version has, it is no coordinator.
func TestALeaderOfTheVersionBeforeDoesNotHaveEveryCall(t *testing.T) {
	f := ledBy(t, http.NotFound)
	if _, err := f.allocations.Allocate(t.Context(), request("r", 1)); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("got %v, want UNAVAILABLE, so that the caller tries another one", err)
	}
	if _, err := f.allocations.Leave(t.Context(), &bursarv1.LeaveRequest{Stream: "s", Numbers: []uint64{1}}); connect.CodeOf(err) != connect.CodeUnimplemented {
		t.Errorf("got %v, want UNIMPLEMENTED, so that the caller does without", err)
	}
	stream, err := f.allocations.Await(t.Context(), &bursarv1.AwaitRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for stream.Receive() {
		t.Errorf("the stream says %v", stream.Msg())
	}
	if err := stream.Err(); connect.CodeOf(err) != connect.CodeUnimplemented || !connect.IsWireError(err) {
		t.Errorf("got %v, want UNIMPLEMENTED, so that requests wait with calls of their own", err)
	}
}

// ledBy returns a standby that takes a server for the leader.
func ledBy(t *testing.T, leader http.HandlerFunc) *fixture {
	t.Helper()
	m := startTeam(t, 2)
	_, standbys := m.led()
	return m.ledBy(t, standbys[0], leader)
}

// ledBy has a standby take a server for the leader.
func (m *team) ledBy(t *testing.T, standby *fixture, leader http.HandlerFunc) *fixture {
	t.Helper()
	server := httptest.NewUnstartedServer(leader)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	m.pin(standby, server.URL)
	return standby
}

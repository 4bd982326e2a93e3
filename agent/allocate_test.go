package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// details are the typed details of an error.
func details(err error) []proto.Message {
	var connectErr *connect.Error
	if !errors.As(err, &connectErr) {
		return nil
	}
	var list []proto.Message
	for _, d := range connectErr.Details() {
		if m, err := d.Value(); err == nil {
			list = append(list, m)
		}
	}
	return list
}

func TestAllocateIsForThisHostInTheCallersName(t *testing.T) {
	s := run(t)
	a := s.allocate(100)
	c := s.coordinator
	c.mu.Lock()
	asked, actor := c.asked[0], c.actors[0]
	c.mu.Unlock()
	if asked.GetHost().GetId() != "h1" || asked.GetRequestId() == "" || a.GetRequestId() != asked.GetRequestId() {
		t.Errorf("asked: %v", asked)
	}
	if actor.Name != "root@h1" && !actor.Anyone { // who runs the tests is the agent's own account
		t.Errorf("actor: %+v", actor)
	}
	own := request(100)
	own.Host = &bursarv1.HostWishes{Id: "h1", PreferredLabels: map[string]string{"disk": "ssd"}}
	own.RequestId = "mine"
	if _, err := s.Allocate(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := c.asked[1]; got.GetRequestId() != "mine" || got.GetHost().GetPreferredLabels()["disk"] != "ssd" {
		t.Errorf("asked: %v", got)
	}
}

func TestAllocateOnAnotherHostIsRefused(t *testing.T) {
	s := run(t)
	q := request(100)
	q.Host = &bursarv1.HostWishes{Id: "h2"}
	_, err := s.Allocate(t.Context(), q)
	if connect.CodeOf(err) != connect.CodeInvalidArgument || field(err) != "host.id" {
		t.Errorf("%v", err)
	}
	_, err = s.Explain(t.Context(), &bursarv1.ExplainRequest{Request: q})
	if connect.CodeOf(err) != connect.CodeInvalidArgument || field(err) != "request.host.id" {
		t.Errorf("explain: %v", err)
	}
	r, err := s.Explain(t.Context(), &bursarv1.ExplainRequest{Request: request(100)})
	if err != nil || r.GetHostId() != "h1" {
		t.Errorf("explain here: %v, %v", r, err)
	}
}

// A coordinator would refuse it as well; the agent does not trouble one.
func TestARequestThatIsTooLargeGoesNoFurther(t *testing.T) {
	s := run(t)
	c := s.coordinator
	q := request(100)
	q.Host = &bursarv1.HostWishes{}
	for i := range 256 {
		q.Host.Avoid = append(q.Host.Avoid, fmt.Sprintf("host-%03d.%s", i, strings.Repeat("x", 200)))
	}
	if _, err := s.Allocate(t.Context(), q); connect.CodeOf(err) != connect.CodeInvalidArgument || field(err) != "host.avoid" {
		t.Errorf("%v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.asked) != 0 {
		t.Errorf("the coordinator was asked: %v", c.asked)
	}
}

// outcome is what became of a call.
type outcome struct {
	allocation *bursarv1.Allocation
	err        error
}

// ask allocates in the background.
func (s *subject) ask(ctx context.Context, q *bursarv1.AllocateRequest) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		r, err := s.Allocate(ctx, q)
		done <- outcome{r.GetAllocation(), err}
	}()
	return done
}

func (s *subject) result(done <-chan outcome) outcome {
	s.t.Helper()
	select {
	case o := <-done:
		return o
	case <-time.After(20 * time.Second):
		s.t.Fatal("no answer")
		return outcome{}
	}
}

// waiter asks for 100 MiB and waits.
func waiter() *bursarv1.AllocateRequest {
	q := request(100)
	q.Wait = durationpb.New(time.Minute)
	return q
}

func TestWaitingRequestSurvivesTheCoordinatorsAbsence(t *testing.T) {
	s := run(t)
	c := s.coordinator
	c.do(func() { c.hold = true })
	done := s.ask(t.Context(), waiter())
	c.await("it waits", func() bool { return len(c.asked) == 1 })
	c.goAway()
	c.comeBack()
	c.await("it waits again", func() bool { return len(c.asked) >= 2 })
	c.do(func() { c.hold, c.epoch = false, c.epoch+1 })
	o := s.result(done)
	if o.err != nil || o.allocation.GetState() != reserved {
		t.Fatalf("%v, %v", o.allocation, o.err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.asked {
		if q.GetRequestId() != c.asked[0].GetRequestId() {
			t.Errorf("asked again as another request: %v", q)
		}
	}
	if len(c.allocations) != 1 {
		t.Errorf("%d allocations, want one", len(c.allocations))
	}
}

func TestRequestWithoutCoordinatorIsUnavailableAtItsDeadline(t *testing.T) {
	s := run(t)
	s.coordinator.goAway()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	delays, began := proc.Delays(t), time.Now()
	o := s.result(s.ask(ctx, waiter()))
	if code := connect.CodeOf(o.err); code != connect.CodeUnavailable && code != connect.CodeDeadlineExceeded {
		t.Errorf("%v", o.err)
	}
	if took := time.Since(began); took > 5*time.Second+delays() {
		t.Errorf("took %v", took)
	}
}

func TestRequestWithoutDeadlineIsUnavailableAfterThePatience(t *testing.T) {
	s := newSubject(t)
	s.config.Patience = 200 * time.Millisecond
	s.start()
	s.coordinator.goAway()
	o := s.result(s.ask(t.Context(), request(100)))
	if connect.CodeOf(o.err) != connect.CodeUnavailable {
		t.Errorf("%v", o.err)
	}
	if _, err := s.confirm("any", process(t, "exec sleep 1000").Process.Pid); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("confirm: %v", err)
	}
}

func TestCallerThatGoesAwayIsNoticed(t *testing.T) {
	s := run(t)
	c := s.coordinator
	c.do(func() { c.hold = true })
	ctx, cancel := context.WithCancel(t.Context())
	done := s.ask(ctx, waiter())
	c.await("it waits", func() bool { return len(c.asked) == 1 })
	cancel()
	s.result(done)
	// Its connection ends, unless the cancellation is there before that is noticed.
	c.await("the coordinator knows", func() bool { return c.left == 1 || c.allocations["alloc00000001"].GetState() == canceled })
	// Only the agent knew its id, so no caller can ask for it again.
	s.coordinator.awaitState("alloc00000001", canceled)
}

func TestShutdownSendsWaitingCallersAway(t *testing.T) {
	s := run(t)
	c := s.coordinator
	c.do(func() { c.hold = true })
	q := waiter()
	q.RequestId = "mine"
	done := s.ask(t.Context(), q)
	c.await("it waits", func() bool { return len(c.asked) == 1 })
	delays, began := proc.Delays(t), time.Now()
	s.stop()
	if o := s.result(done); connect.CodeOf(o.err) != connect.CodeUnavailable {
		t.Errorf("%v", o.err)
	}
	if took := time.Since(began); took > 4*time.Second+delays() {
		t.Errorf("the shutdown took %v", took)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.allocations["alloc00000001"]; a.GetState() != waiting {
		t.Errorf("its caller can come back for it, but it is %v", a)
	}
}

func TestGrantIsRefusedWhereTheMemoryIsNotThere(t *testing.T) {
	s := run(t)
	s.meter.available.Store(60 * mib)
	s.ticks(2)
	_, err := s.Allocate(t.Context(), request(100))
	if connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Fatalf("%v", err)
	}
	insufficient, _ := details(err)[0].(*bursarv1.InsufficientResources)
	short := insufficient.GetShortfalls()[0]
	if insufficient.GetReason() != "vetoed" || short.GetAccount().GetLabels()["host"] != "h1" || short.GetDimension() != "memory" ||
		short.GetRequested() != 100*mib || short.GetAvailable() != 60*mib || short.GetLimit() == 0 || short.GetNote() != "measured" {
		t.Errorf("detail: %v", insufficient)
	}
	s.coordinator.awaitState("alloc00000001", waiting) // it was told
	if _, err := s.Allocate(t.Context(), request(50)); err != nil {
		t.Errorf("what fits: %v", err)
	}
}

// A process that is no engine fills the host's memory between two measurements: the next grant is
// decided by what is left then.
func TestAGrantIsNotGivenOnMemoryThatOthersHaveTakenSinceTheLastSample(t *testing.T) {
	s := newSubject(t)
	s.config.Tick = 20 * time.Second
	s.start()
	s.allocate(100)
	s.meter.available.Store(250 * mib)
	delays, began := proc.Delays(t), time.Now()
	for {
		r, err := s.Allocate(t.Context(), request(200))
		if connect.CodeOf(err) == connect.CodeResourceExhausted {
			break
		}
		if err != nil || time.Since(began) > 5*time.Second+delays() {
			t.Fatalf("200 MiB granted of 250 that are left, of which 100 are promised: %v", err)
		}
		// Looks share what they find, for a moment and not for a tick.
		if _, err := s.Release(t.Context(), &bursarv1.ReleaseRequest{Id: r.GetAllocation().GetId()}); err != nil {
			t.Fatal(err)
		}
	}
	s.allocate(100)
}

// A coordinator grants at once what another client has given back, and the agent hears of that with
// its next report.
func TestAGrantIsGivenOnMemoryThatTheAgentHasNotHeardIsFree(t *testing.T) {
	s := run(t)
	first := s.allocate(600)
	s.ticks(3)
	s.coordinator.do(func() {
		s.coordinator.put(first, func(a *bursarv1.Allocation) { a.State = released })
	})
	s.allocate(500)
}

// The report that another request waits for may be under way, and too old.
func TestAGrantWaitsForAReportThatIsNewerThanIt(t *testing.T) {
	s := newSubject(t)
	c := s.coordinator
	c.interval = time.Minute
	s.start()
	first, second := s.allocate(600), s.allocate(300)
	release := func(a *bursarv1.Allocation) {
		c.do(func() { c.put(a, func(a *bursarv1.Allocation) { a.State = released }) })
	}
	held := make(chan struct{})
	var count int
	c.do(func() { c.syncHeld, count = held, len(c.syncs) })
	release(first)
	third := s.ask(t.Context(), request(500))
	c.await("the agent asks what has ended", func() bool { return len(c.syncs) > count })
	release(second)
	fourth := s.ask(t.Context(), request(400))
	c.await("the second is granted, too", func() bool { return len(c.asked) == 4 })
	close(held)
	for _, granted := range []<-chan outcome{third, fourth} {
		if o := s.result(granted); o.err != nil {
			t.Error(o.err)
		}
	}
}

// Whoever asks for grants that do not fit, as fast as possible, has the agent send a few more
// heartbeats in a second, and not one for each grant.
func TestGrantsThatDoNotFitShareHeartbeats(t *testing.T) {
	const gap = 250 * time.Millisecond
	s := newSubject(t)
	c := s.coordinator
	c.interval = time.Minute
	s.start()
	s.allocate(100)
	c.mu.Lock()
	before := len(c.syncs)
	c.mu.Unlock()
	began := time.Now()
	var callers sync.WaitGroup
	var refused atomic.Int32
	for range 8 {
		callers.Go(func() {
			for time.Since(began) < 2*time.Second {
				if _, err := s.Allocate(t.Context(), request(5000)); connect.CodeOf(err) != connect.CodeResourceExhausted {
					t.Errorf("5,000 of 1,000 MiB granted: %v", err)
				}
				refused.Add(1)
			}
		})
	}
	callers.Wait()
	c.mu.Lock()
	sent := len(c.syncs) - before
	c.mu.Unlock()
	// and what the start needed
	if most := int(time.Since(began)/gap) + 5; sent > most || refused.Load() < 8 {
		t.Errorf("%d heartbeats for %d grants in %s: want %d at most", sent, refused.Load(), time.Since(began), most)
	}
}

func TestWaitingRequestIsGrantedOnceTheMemoryIsThere(t *testing.T) {
	s := run(t)
	s.meter.available.Store(60 * mib)
	s.ticks(2)
	done := s.ask(t.Context(), waiter())
	s.coordinator.await("it was refused", func() bool { return s.coordinator.allocations["alloc00000001"].GetReason() == "vetoed" })
	s.meter.available.Store(200 * mib)
	if o := s.result(done); o.err != nil || o.allocation.GetState() != reserved || o.allocation.GetId() != "alloc00000001" {
		t.Errorf("%v, %v", o.allocation, o.err)
	}
}

// A coordinator that grants the same again and again, or that does not hear of the veto, keeps
// nobody waiting for longer than they asked for.
func TestWaitingRequestWhoseGrantsAreRefusedEndsWithItsWait(t *testing.T) {
	for name, deaf := range map[string]bool{"granted again": false, "heartbeats are not answered": true} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t)
			s.config.Patience = 2 * time.Second
			s.start()
			s.meter.available.Store(60 * mib)
			s.ticks(2)
			if deaf {
				held := make(chan struct{})
				t.Cleanup(func() { close(held) })
				s.coordinator.do(func() { s.coordinator.syncHeld = held })
			}
			q := waiter()
			q.Wait = durationpb.New(2 * time.Second)
			o := s.result(s.ask(t.Context(), q))
			if short, _ := client.Insufficient(o.err); short.GetReason() != "vetoed" {
				t.Errorf("%v; want it refused, as vetoed", o.err)
			}
		})
	}
}

func TestGrantsSinceTheSampleCountInFull(t *testing.T) {
	s := run(t)
	s.allocate(600)
	_, err := s.Allocate(t.Context(), request(500))
	if connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("1,100 of 1,000 MiB granted: %v", err)
	}
	s.allocate(400)
}

func TestRefusedGrantCannotBeConfirmed(t *testing.T) {
	s := run(t)
	s.coordinator.do(func() { s.coordinator.hold = true })
	s.meter.available.Store(0)
	s.ticks(2)
	q := request(100)
	q.Async = true
	r, err := s.Allocate(t.Context(), q)
	if err != nil || r.GetAllocation().GetState() != waiting {
		t.Fatalf("%v, %v", r, err)
	}
	cmd := process(t, "exec sleep 1000")
	if _, err := s.confirm(r.GetAllocation().GetId(), cmd.Process.Pid); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("%v", err)
	}
}

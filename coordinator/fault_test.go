package coordinator

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// panicky is a placer that panics over requests for so much memory, in one of its methods.
type panicky struct {
	ledger.Placer

	method string
	memory int64
	sprung *atomic.Int64 // how often it did
}

func (p *panicky) look(method string, q ledger.Query) {
	if memory, _ := q.Request.Get(resource.Memory); method == p.method && memory == p.memory {
		p.sprung.Add(1)
		panic("a trap in " + method)
	}
}

func (p *panicky) Choose(q ledger.Query) ledger.Slot {
	p.look("Choose", q)
	return p.Placer.Choose(q)
}

func (p *panicky) Closest(q ledger.Query) ledger.Slot {
	p.look("Closest", q)
	return p.Placer.Closest(q)
}

func (p *panicky) Survey(q ledger.Query) ledger.HostFilters {
	p.look("Survey", q)
	return p.Placer.Survey(q)
}

func (p *panicky) Book(slot ledger.Slot, available, booked resource.Vector) {
	p.look("Book", ledger.Query{Request: booked})
	p.Placer.Book(slot, available, booked)
}

func trapped(method string, memory int64, sprung *atomic.Int64) func() ledger.Placer {
	return func() ledger.Placer { return &panicky{placement.New(placement.Spread), method, memory, sprung} }
}

// trapRig is a rig whose placer panics over requests for 77 bytes.
func trapRig(t *testing.T, method string) (*rig, *atomic.Int64) {
	t.Helper()
	sprung := new(atomic.Int64)
	r := newRig(t, newMemoryStore())
	r.core.Drop(ErrNotLeading)
	r.core.newPlacer = trapped(method, trapMemory, sprung)
	r.lead(0)
	r.answers = nil
	return r, sprung
}

const trapMemory = 77

// asks sends a request for memory, which waits for so long, as a message like that would.
func (r *rig) asks(name string, memory int64, wait time.Duration, async bool) (*Ask, error) {
	ask := &Ask{Command: ledger.AllocateCommand{
		Actor: identity.Local(), RequestID: name, Labels: label.Of("user", "alice"), Wait: wait, Async: async,
		Resource: resource.NewResource(resource.Vector{}.WithMemory(memory)),
	}}
	ask.From = &Origin{Procedure: "/Allocate", Caller: "alice", Message: &bursarv1.AllocateRequest{
		RequestId: name, Resource: &bursarv1.Resource{MemoryBytes: &memory},
	}}
	ask.Done = func(err error) { r.answers = append(r.answers, name+": "+kindOf(err, ask)) }
	return ask, r.core.Do(r.now, ask)
}

// kindOf says in a word what an answer is.
func kindOf(err error, ask *Ask) string {
	if err == nil {
		if ask.Err != nil {
			return strings.SplitN(ask.Err.Error(), ":", 2)[0]
		}
		return ask.Result.Allocation.State.String()
	}
	if _, ok := errors.AsType[*PanicError](err); ok {
		return "fault"
	}
	if _, ok := errors.AsType[*RefusedError](err); ok {
		return "refused"
	}
	if errors.Is(err, ErrNotLeading) {
		return "try again"
	}
	return err.Error()
}

func (r *rig) faulted(err error) {
	r.t.Helper()
	if fault, ok := errors.AsType[*PanicError](err); !ok || fault.Refused == "" {
		r.t.Fatalf("%v; want a fault, and who is to blame", err)
	}
	if !errors.Is(r.core.Fault(), err) {
		r.t.Errorf("the core's fault is %v; want %v", r.core.Fault(), err)
	}
	r.core.Drop(ErrNotLeading)
	r.lead(0)
}

// TestACommandThatMakesTheLedgerPanicIsRefusedFromThenOn: invariant 10. Only its caller hears of it, under whatever request id.
func TestACommandThatMakesTheLedgerPanicIsRefusedFromThenOn(t *testing.T) {
	r, sprung := trapRig(t, "Choose")
	r.host()
	if _, err := r.asks("good", 10, 0, false); err != nil {
		t.Fatal(err)
	}
	_, err := r.asks("bad", trapMemory, 0, false)
	r.faulted(err)
	r.answered("bad: fault", "good: try again")
	for _, name := range []string{"bad", "again"} {
		if _, err := r.asks(name, trapMemory, 0, false); err != nil {
			t.Fatal(err)
		}
	}
	r.answered("bad: refused", "again: refused")
	if n := sprung.Load(); n != 1 {
		t.Errorf("the ledger panicked %d times; want once", n)
	}
	r.now = r.now.Add(refusedFor)
	_, err = r.asks("tomorrow", trapMemory, 0, false)
	r.faulted(err)
	r.answered("tomorrow: fault")
}

// TestAPanicWhileAWaitEndsCostsOneLeadership: the batch is closed outside of any command.
func TestAPanicWhileAWaitEndsCostsOneLeadership(t *testing.T) {
	r, sprung := trapRig(t, "Survey")
	r.host()
	if _, err := r.asks("full", 90, 0, false); err != nil {
		t.Fatal(err)
	}
	r.commit()
	r.answers = nil
	if _, err := r.asks("bad", trapMemory, time.Second, false); err != nil {
		t.Fatal(err)
	}
	if _, err := r.asks("other", 20, time.Hour, false); err != nil {
		t.Fatal(err)
	}
	r.commit()
	r.answered()
	r.now = r.now.Add(time.Second)
	if err := r.core.Advance(r.now); err != nil {
		t.Fatal(err)
	}
	if r.core.Take() != nil {
		t.Fatal("there is a batch")
	}
	r.faulted(r.core.Fault())
	r.answered("bad: fault", "other: try again")
	if _, err := r.asks("again", trapMemory, time.Second, false); err != nil {
		t.Fatal(err)
	}
	r.answered("again: refused")

	// Of another caller it is another command: it waits without a look at what would have panicked.
	ask, err := r.asks("stranger", trapMemory+1, time.Second, false)
	if err != nil {
		t.Fatal(err)
	}
	ask.Command.Resource = resource.NewResource(resource.Vector{}.WithMemory(trapMemory))
	r.now = r.now.Add(time.Second)
	if err := r.core.Advance(r.now); err != nil {
		t.Fatal(err)
	}
	r.commit()
	if diff := cmp.Diff("insufficient", strings.SplitN(strings.TrimPrefix(r.answers[0], "stranger: "), " ", 2)[0]); diff != "" {
		t.Error(diff, r.answers)
	}
	if n := sprung.Load(); n != 1 {
		t.Errorf("the ledger panicked %d times; want once", n)
	}
}

// TestAPoisonedRowDoesNotKeepACoordinatorFromStarting: nor does it end the process that starts with it.
func TestAPoisonedRowDoesNotKeepACoordinatorFromStarting(t *testing.T) {
	disk := storetest.NewMemory("test")
	r := newRig(t, disk.Open())
	r.host()
	if _, err := r.asks("full", 90, 0, false); err != nil {
		t.Fatal(err)
	}
	ask, err := r.asks("poisoned", trapMemory, time.Hour, true)
	if err != nil {
		t.Fatal(err)
	}
	r.commit()
	sprung := new(atomic.Int64)
	f := start(t, Config{}, disk.Open(), func(s *Server) { s.core.newPlacer = trapped("Choose", trapMemory, sprung) })
	eventually(t, "the poisoned request is canceled", func() bool {
		return f.get(ask.Result.Allocation.ID.String()).GetState() == bursarv1.AllocationState_ALLOCATION_STATE_CANCELED
	})
	if n := sprung.Load(); n != 1 {
		t.Errorf("the ledger panicked %d times; want once", n)
	}
}

// TestTheProcessOutlivesItsPlacer: through the wire, other users are served, one leadership is lost, and status says over what.
func TestTheProcessOutlivesItsPlacer(t *testing.T) {
	for _, method := range []string{"Choose", "Closest", "Survey"} {
		t.Run(method, func(t *testing.T) {
			sprung := new(atomic.Int64)
			f := start(t, Config{}, nil, func(s *Server) {
				s.core.newPlacer = trapped(method, 6<<30, sprung)
			})
			f.host("h1", 8<<30)
			f.allocate(request("full", 4<<30))
			before := f.status().GetEpoch()
			bad := func(id string) error {
				req := request(id, 6<<30)
				req.Wait = seconds(1)
				_, err := f.allocations.Allocate(t.Context(), req)
				return err
			}
			if err := bad("bad"); connect.CodeOf(err) != connect.CodeInternal {
				t.Fatalf("%v; want INTERNAL", err)
			}
			eventually(t, "it leads again", func() bool {
				_, err := f.cluster.Status(t.Context(), &bursarv1.StatusRequest{})
				return err == nil
			})
			for _, id := range []string{"bad", "worse", "worst"} {
				if err := bad(id); connect.CodeOf(err) != connect.CodeFailedPrecondition {
					t.Errorf("%s: %v; want FAILED_PRECONDITION", id, err)
				}
			}
			f.host("h2", 8<<30)
			f.allocate(request("another's", 1<<30))
			status := f.status()
			if status.GetEpoch() != before+1 || sprung.Load() != 1 {
				t.Errorf("epoch %d after %d, %d panics; want one leadership lost by one panic", status.GetEpoch(), before, sprung.Load())
			}
			if !strings.Contains(strings.Join(status.GetWarnings(), "\n"), "AllocationService/Allocate of ") {
				t.Errorf("status does not say what is refused: %q", status.GetWarnings())
			}
			f.audited()
		})
	}
}

// TestAReplicaThatPanicsIsDropped: a read on a standby ends no process, and the same read costs no second replica.
func TestAReplicaThatPanicsIsDropped(t *testing.T) {
	d := newDesk(t, newMemoryStore(), nil)
	loads, load := 0, d.replica.load
	d.replica.load = func(ctx context.Context) (*ledger.Ledger, skew, error) {
		loads++
		return load(ctx)
	}
	by := func(name string) context.Context {
		return auth.WithCaller(t.Context(), &auth.Caller{Procedure: "/List", Actor: identity.Actor{Name: name}})
	}
	lost := func(*ledger.Ledger, ledger.Instant) { panic("lost count") }
	err := d.replica.do(by("alice"), lost)
	if _, ok := errors.AsType[*PanicError](err); !ok {
		t.Fatalf("%v; want a *PanicError", err)
	}
	for range 3 {
		err := d.replica.do(by("alice"), lost)
		if _, ok := errors.AsType[*RefusedError](err); !ok {
			t.Fatalf("%v; want it refused", err)
		}
	}
	if err := d.replica.do(by("bob"), func(l *ledger.Ledger, _ ledger.Instant) { l.Counts() }); err != nil {
		t.Errorf("another's read: %v", err)
	}
	if loads != 2 {
		t.Errorf("the store was read %d times; want once before the panic and once after it", loads)
	}
}

// TestAHangUpThatPanicsAnswersEverybody: what is due by then happens first, and may panic.
func TestAHangUpThatPanicsAnswersEverybody(t *testing.T) {
	r := newRig(t, newMemoryStore())
	over := new(atomic.Bool)
	r.core.Drop(ErrNotLeading)
	r.core.newPlacer = func() ledger.Placer { return &touchy{placement.New(placement.Spread), over} }
	r.lead(0)
	r.host()
	r.ask("full", 90, 0)
	r.commit()
	r.answers = nil
	r.ask("first", 20, time.Hour)
	r.ask("second", 30, time.Hour)
	r.commit()
	r.answered()
	over.Store(true)
	r.now = r.now.Add(3 * time.Minute) // the host has fallen silent
	r.core.HangUp(r.now, ErrStopping)
	if fault, ok := errors.AsType[*PanicError](r.core.Fault()); !ok || fault.Refused != "" || len(r.core.Refusals()) != 0 {
		t.Fatalf("%v, refused are %q; want a fault that is nobody's", r.core.Fault(), r.core.Refusals())
	}
	if r.core.Take() != nil {
		t.Error("there is a batch")
	}
	if due, set := r.core.NextTimer(); !set || due > r.now {
		t.Errorf("due at %d, %t; want at once, to find out", due, set)
	}
	if len(r.answers) != 2 {
		t.Errorf("answers: %q; want one for each", r.answers)
	}
}

// touchy is a placer that panics over any host while it is told to.
type touchy struct {
	ledger.Placer

	over *atomic.Bool
}

func (p *touchy) Put(slot ledger.Slot, view ledger.HostView) {
	if p.over.Load() {
		panic("a host too many")
	}
	p.Placer.Put(slot, view)
}

// TestAPanicOverWhatIsDueByItselfIsShownAndTriedAgain: nobody is to blame for a host that falls silent.
func TestAPanicOverWhatIsDueByItselfIsShownAndTriedAgain(t *testing.T) {
	over := new(atomic.Bool)
	config := Config{}
	config.Times.Interval = 100 * time.Millisecond
	f := start(t, config, nil, func(s *Server) {
		s.core.newPlacer = func() ledger.Placer { return &touchy{placement.New(placement.Spread), over} }
	})
	f.host("h1", 8<<30)
	before := f.status().GetEpoch()
	over.Store(true)
	status := func() *bursarv1.StatusResponse {
		res, err := f.cluster.Status(t.Context(), &bursarv1.StatusRequest{AllowStale: true})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	eventually(t, "it is shown", func() bool {
		res := status()
		return !res.GetIsLeader() && strings.Contains(strings.Join(res.GetWarnings(), "\n"), "not known over what: a host too many")
	})
	over.Store(false)
	eventually(t, "it leads again", func() bool { return status().GetIsLeader() })
	if epoch := status().GetEpoch(); epoch <= before || epoch > before+20 {
		t.Errorf("epoch %d after %d; want a few attempts, further and further apart", epoch, before)
	}
}

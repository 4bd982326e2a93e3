package core

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
	"github.com/bursar/bursar/test/trapplacer"
)

// trapRig is a rig whose placer panics over requests for 77 bytes.
func trapRig(t *testing.T, method string) (*rig, *atomic.Int64) {
	t.Helper()
	sprung := new(atomic.Int64)
	r := newRig(t, storetest.NewMemory("test").Open())
	r.core.Drop(ErrNotLeading)
	r.core.newPlacer = trapplacer.Trap(method, trapMemory, sprung)
	r.lead(0)
	r.answers = nil
	return r, sprung
}

const trapMemory = 77

// asks sends a request for memory that waits this long, as its message would.
func (r *rig) asks(name string, memory int64, wait time.Duration, async bool) (*Request, error) {
	request := &Request{Command: ledger.AllocateCommand{
		Actor: identity.Local(), RequestID: name, Labels: label.Of("user", "alice"), Wait: wait, Async: async,
		Resource: resource.NewResource(resource.Vector{}.WithMemory(memory)),
	}}
	request.From = &Origin{Procedure: "/Allocate", Caller: "alice", Message: &bursarv1.AllocateRequest{
		RequestId: name, Resource: &bursarv1.Resource{MemoryBytes: &memory},
	}}
	request.Done = func(err error) { r.answers = append(r.answers, name+": "+kindOf(err, request)) }
	return request, r.core.Do(r.now, request)
}

// kindOf describes an answer in a word.
func kindOf(err error, request *Request) string {
	if err == nil {
		if request.Err != nil {
			return strings.SplitN(request.Err.Error(), ":", 2)[0]
		}
		return request.Result.Allocation.State.String()
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

// TestACommandThatMakesTheLedgerPanicIsRefusedFromThenOn: invariant 10. Only its caller is told,
// under any request id.
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
	r.now = r.now.Add(RefusedFor)
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

	// The same request of another caller is another command: it waits and does not run into the
	// panic.
	request, err := r.asks("stranger", trapMemory+1, time.Second, false)
	if err != nil {
		t.Fatal(err)
	}
	request.Command.Resource = resource.NewResource(resource.Vector{}.WithMemory(trapMemory))
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

// TestAHangUpThatPanicsAnswersEverybody: events that are due by then happen first, and may panic.
func TestAHangUpThatPanicsAnswersEverybody(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	over := new(atomic.Bool)
	r.core.Drop(ErrNotLeading)
	r.core.newPlacer = trapplacer.HostTrap(over)
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
	r.core.DetachAll(r.now, ErrStopping)
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

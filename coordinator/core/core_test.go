package core

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// rig drives a core by hand: its store commits when the test says so, and answers are recorded in
// the order in which they come.
type rig struct {
	t       *testing.T
	core    *Core
	store   store.Store
	now     ledger.Instant
	answers []string
}

func newRig(t *testing.T, s store.Store) *rig {
	t.Helper()
	r := &rig{t: t, store: s, now: ledger.At(time.Unix(1_700_000_000, 0))}
	r.core = NewCore(ledger.Config{}, func() ledger.Placer { return placement.New(placement.Spread) }, DrawLeadership)
	r.lead(0)
	return r
}

func (r *rig) lead(atLeast uint64) {
	r.t.Helper()
	meta, err := r.store.Lead(r.t.Context(), atLeast)
	if err != nil {
		r.t.Fatal(err)
	}
	snapshot, err := r.store.Load(r.t.Context(), meta.Epoch, time.Time{}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.core.Lead(r.now, meta, snapshot); err != nil {
		r.t.Fatal(err)
	}
}

// do applies a command that is a function.
func (r *rig) do(f func(l *ledger.Ledger, now ledger.Instant)) {
	r.t.Helper()
	if err := r.core.Do(r.now, &Call{Do: OnLedger(f), Done: func(error) {}}); err != nil {
		r.t.Fatal(err)
	}
}

// ask applies an Allocate of this memory, and records its answer under the name.
func (r *rig) ask(name string, memory int64, wait time.Duration) *Request {
	return r.askAs(name, ledger.AllocateCommand{
		Actor: identity.Local(), RequestID: name, Labels: label.Of("user", "alice"), Wait: wait,
		Resource: resource.NewResource(resource.Vector{}.WithMemory(memory)),
	})
}

func (r *rig) askAs(name string, command ledger.AllocateCommand) *Request {
	r.t.Helper()
	request := &Request{Command: command}
	request.Done = func(err error) {
		if err == nil {
			err = request.Err
		}
		text := request.Result.Allocation.State.String()
		if err != nil {
			text = strings.SplitN(err.Error(), ":", 2)[0]
		}
		r.answers = append(r.answers, name+" "+text)
	}
	if err := r.core.Do(r.now, request); err != nil {
		r.t.Fatal(err)
	}
	return request
}

func (r *rig) withdraw(request *Request) {
	r.t.Helper()
	if err := r.core.Do(r.now, request.Withdraw()); err != nil {
		r.t.Fatal(err)
	}
}

// commit closes the open batch and makes it durable.
func (r *rig) commit() {
	r.t.Helper()
	if batch := r.core.Take(); batch != nil {
		err := r.store.Commit(context.Background(), batch.Batch)
		batch.Answer(err)
		if err != nil {
			r.t.Fatal(err)
		}
		r.core.Done(r.now)
	}
}

// answered compares the answers since the last time.
func (r *rig) answered(want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.answers); diff != "" {
		r.t.Errorf("answers (-want +got):\n%s", diff)
	}
	r.answers = nil
}

// host adds a host with 100 bytes of memory.
func (r *rig) host() {
	r.t.Helper()
	const memory = 100
	r.do(func(l *ledger.Ledger, now ledger.Instant) {
		capacity := resource.Vector{}.WithMemory(memory).WithCPU(1 << 30).WithInstances(1 << 30)
		if _, err := l.Register(now, ledger.RegisterCommand{HostID: "h", Capacity: capacity, Incarnation: 1}); err != nil {
			r.t.Fatal(err)
		}
		r.heartbeat(l, now, memory, 1)
	})
	r.commit()
}

func (r *rig) heartbeat(l *ledger.Ledger, now ledger.Instant, memory int64, sequence uint64) {
	r.t.Helper()
	if _, err := l.Sync(now, ledger.SyncCommand{
		HostID: "h", Incarnation: 1, Sequence: sequence, Full: true, Seen: l.Revision(), Sample: &ledger.Sample{MemoryAvailable: &memory},
	}); err != nil {
		r.t.Fatal(err)
	}
}

func TestNothingIsAnsweredBeforeItIsDurable(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	r.ask("a", 60, 0)
	// a refusal has seen a's grant: it, too, must not be answered before that is durable
	r.ask("b", 60, 0)
	first := r.core.Take()
	r.ask("c", 10, 0)
	if r.core.Take() != nil {
		t.Error("a second batch was handed out while the first is under way")
	}
	r.answered()
	first.Answer(nil)
	r.core.Done(r.now)
	r.answered("a reserved", "b insufficient resources (refused)")
	r.commit()
	r.answered("c reserved")
}

func TestABatchThatChangesNothingStillAsksTheStore(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.ask("a", 60, 0) // refused: there is no host
	batch := r.core.Take()
	if batch == nil || !batch.Empty() || batch.Epoch != r.core.Meta().Epoch {
		t.Fatalf("got %+v: want an empty batch of this epoch", batch)
	}
	r.answered()
	batch.Answer(nil)
	r.answered("a insufficient resources (refused)")
	r.core.Done(r.now)
	if r.core.Take() != nil {
		t.Error("a batch where nothing happened and nobody asks")
	}
}

func TestAWaitIsAnsweredWithTheBatchThatEndsIt(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	holder := r.ask("a", 100, 0)
	r.commit()
	r.answered("a reserved")
	r.ask("b", 100, time.Minute)
	r.ask("c", 100, 30*time.Second)
	r.commit()
	r.answered()
	r.do(func(l *ledger.Ledger, now ledger.Instant) {
		if _, err := l.Release(now, ledger.ReleaseCommand{Actor: identity.Local(), ID: holder.Result.Allocation.ID}); err != nil {
			t.Fatal(err)
		}
	})
	r.answered()
	r.commit()
	r.answered("b reserved")
	r.now = r.now.Add(30 * time.Second)
	if err := r.core.Advance(r.now); err != nil {
		t.Fatal(err)
	}
	r.answered()
	r.commit()
	r.answered("c insufficient resources (waited)")
}

func TestTheEndOfAWaitSaysWhatIsShort(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	r.ask("a", 70, 0)
	b := r.ask("b", 50, time.Second)
	r.now = r.now.Add(time.Second)
	if err := r.core.Advance(r.now); err != nil {
		t.Fatal(err)
	}
	r.commit()
	insufficient, ok := errors.AsType[*ledger.InsufficientError](b.Err)
	if !ok || insufficient.Reason != ledger.ReasonWaited || len(insufficient.Shortfalls) == 0 {
		t.Fatalf("got %v", b.Err)
	}
	if s := insufficient.Shortfalls[0]; s.Requested != 50 || s.Available != 30 || s.Dimension != resource.Memory {
		t.Errorf("got %+v", s)
	}
}

func TestTheEndOfManyWaitsSaysToEachWhatIsShort(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	r.ask("a", 70, 0)
	var asks []*Request
	for i := range 500 {
		asks = append(asks, r.ask(fmt.Sprintf("b%d", i), int64(50+i%2), time.Second))
	}
	r.now = r.now.Add(time.Second)
	if err := r.core.Advance(r.now); err != nil {
		t.Fatal(err)
	}
	r.commit()
	for i, request := range asks {
		insufficient, ok := errors.AsType[*ledger.InsufficientError](request.Err)
		if !ok || len(insufficient.Shortfalls) != 1 || insufficient.Shortfalls[0].Requested != int64(50+i%2) {
			t.Fatalf("request %d: %v, want what it falls short of", i, request.Err)
		}
	}
}

func TestACallerWhoLeavesKeepsItsPlaceAndGetsNothing(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	holder := r.ask("a", 100, 0)
	b := r.ask("b", 100, time.Minute)
	r.commit()
	r.answered("a reserved")
	r.withdraw(b)
	r.do(func(l *ledger.Ledger, now ledger.Instant) {
		if _, err := l.Release(now, ledger.ReleaseCommand{Actor: identity.Local(), ID: holder.Result.Allocation.ID}); err != nil {
			t.Fatal(err)
		}
	})
	r.commit()
	r.answered() // nobody is there
	r.ask("b", 100, time.Minute)
	r.commit()
	r.answered("b reserved")
}

func TestTwoCallersOfOneRequestAreBothAnswered(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	holder := r.ask("a", 100, 0)
	first := r.ask("b", 100, time.Minute)
	second := r.ask("b", 100, time.Minute)
	third := r.ask("b", 100, time.Minute)
	r.withdraw(second)
	r.do(func(l *ledger.Ledger, now ledger.Instant) {
		if _, err := l.Release(now, ledger.ReleaseCommand{Actor: identity.Local(), ID: holder.Result.Allocation.ID}); err != nil {
			t.Fatal(err)
		}
	})
	r.commit()
	r.answered("a reserved", "b reserved", "b reserved")
	if first.Result.Allocation.ID != third.Result.Allocation.ID {
		t.Errorf("%s and %s", first.Result.Allocation.ID, third.Result.Allocation.ID)
	}
}

func TestWhoAsksWithoutARequestIDAndLeavesHoldsNothing(t *testing.T) {
	for _, granted := range []bool{true, false} {
		t.Run(fmt.Sprint("granted=", granted), func(t *testing.T) {
			r := newRig(t, storetest.NewMemory("test").Open())
			r.host()
			command := ledger.AllocateCommand{
				Actor: identity.Local(), Labels: label.Of("user", "alice"), Wait: time.Minute,
				Resource: resource.NewResource(resource.Vector{}.WithMemory(100)),
			}
			if !granted {
				r.ask("a", 100, 0)
			}
			request := r.askAs("b", command)
			r.commit()
			r.withdraw(request)
			r.commit()
			if _, live := r.core.Ledger().Get(request.Result.Allocation.ID); live {
				t.Error("what nobody can find is still live")
			}
		})
	}
}

func TestALeaveThatOvertakesItsAskUndoesIt(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	request := &Request{Command: ledger.AllocateCommand{
		Actor: identity.Local(), RequestID: "a", Resource: resource.NewResource(resource.Vector{}.WithMemory(1)),
	}, Done: func(error) {}}
	r.withdraw(request)
	if err := r.core.Do(r.now, request); err != nil {
		t.Fatal(err)
	}
	r.commit()
	if c := r.core.Ledger().Counts(); c.Reserved != 0 {
		t.Errorf("%d reserved for a caller who had gone", c.Reserved)
	}
}

func TestDropAnswersEverybodyAndTheStoreDecidesWhatHolds(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	r.ask("durable", 10, 0)
	r.commit()
	r.ask("waiting", 200-101, time.Minute)
	r.commit()
	r.answered("durable reserved")
	r.ask("flying", 10, 0)
	flying := r.core.Take()
	r.ask("open", 10, 0)
	failure := fmt.Errorf("could not be made durable (%w)", store.ErrUnknownOutcome)
	r.core.Drop(failure)
	r.answered("open could not be made durable (outcome unknown", "waiting could not be made durable (outcome unknown")
	flying.Answer(failure)
	r.answered("flying could not be made durable (outcome unknown")
	if err := r.core.Do(r.now, &Request{Done: func(err error) { r.answers = append(r.answers, err.Error()) }}); err != nil {
		t.Fatal(err)
	}
	r.answered(ErrNotLeading.Error())

	before := r.core.Meta().Epoch
	r.lead(before + 5)
	if r.core.Meta().Epoch < before+5 {
		t.Errorf("epoch %d after %d", r.core.Meta().Epoch, before)
	}
	if c := r.core.Ledger().Counts(); c.Reserved != 1 || c.Waiting != 1 {
		t.Errorf("%+v: want what was acknowledged, and nothing else", c)
	}
}

func TestAPanicOfTheLedgerIsTheCommandsAnswer(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	var answer error
	err := r.core.Do(r.now, &Call{Do: func(*Core, ledger.Instant) { panic("lost count") }, Done: func(err error) { answer = err }})
	fault, ok := errors.AsType[*PanicError](err)
	if !ok || fault.Cause != "lost count" || answer == nil || len(fault.Stack) == 0 {
		t.Errorf("got %v, answered %v", err, answer)
	}
}

func TestTimeNeverGoesBack(t *testing.T) {
	s := storetest.NewMemory("test").Open()
	r := newRig(t, s)
	r.host()
	r.now = r.now.Add(time.Hour)
	r.do(func(l *ledger.Ledger, now ledger.Instant) { r.heartbeat(l, now, 100, 2) })
	late := r.ask("late", 10, 0)
	r.commit()
	r.now = r.now.Add(-2 * time.Hour)
	early := r.ask("early", 10, 0)
	r.commit()
	if late.Result.Allocation.Created > early.Result.Allocation.Created {
		t.Error("time went back while running")
	}

	// Over a restart, the store says how late it was.
	again := newRig(t, s)
	again.core.Drop(ErrNotLeading)
	again.core.now = 0
	again.now = r.now.Add(-24 * time.Hour)
	again.lead(0)
	if again.core.now < late.Result.Allocation.Created {
		t.Error("time went back over a restart")
	}
}

func TestAnAgentThatHasSeenALaterEpochEndsTheLeadership(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	epoch := r.core.Meta().Epoch
	report := func(seen uint64) *Report {
		report := &Report{Seen: SeenEpoch{Epoch: seen}, Command: ledger.SyncCommand{HostID: "h", Incarnation: 1, Sequence: 99}, Done: func(error) {}}
		if err := r.core.Do(r.now, report); err != nil {
			t.Fatal(err)
		}
		return report
	}
	r.host()
	if old := report(epoch - 1); old.Err != nil || old.Result.Action != ledger.ActionResync || old.Led.Epoch != epoch {
		t.Errorf("an agent of an older epoch: %+v, %v", old.Result, old.Err)
	}
	if absurd := report(1 << 63); absurd.Err == nil {
		t.Error("an absurd epoch was taken seriously")
	}
	if _, superseded := r.core.Superseded(); superseded {
		t.Error("superseded by an old or an absurd epoch")
	}
	if ahead := report(epoch + 7); !errors.Is(ahead.Err, ErrNotLeading) {
		t.Errorf("got %v", ahead.Err)
	}
	if seen, superseded := r.core.Superseded(); !superseded || seen != epoch+7 {
		t.Errorf("got %d, %v", seen, superseded)
	}
}

func TestRulesOfFilesOutliveALeadership(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	r.host()
	selector, err := label.ParseSelector("user=alice")
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string][]ledger.Quota{"file:q": {{Selector: selector, Limit: resource.Vector{}.WithMemory(50)}}}
	if err := r.core.SetQuotaFiles(r.now, rules); err != nil {
		t.Fatal(err)
	}
	r.ask("a", 60, 0)
	r.commit()
	r.answered("a insufficient resources (never)")
	r.core.Drop(ErrNotLeading)
	r.lead(0)
	if rules := r.core.Ledger().Quotas(); len(rules) != 1 || rules[0].Source != "file:q" {
		t.Errorf("rules %+v", rules)
	}
}

package ledger_test

import (
	"fmt"
	"iter"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// steppedAudit audits a ledger again and again, one small step after each of its commands.
type steppedAudit struct {
	of       *ledger.Ledger
	next     func() (*ledger.AuditResult, bool)
	audits   int
	restarts int
}

// step does one step. Nothing may ever be wrong.
func (s *steppedAudit) step(t *rapid.T, l *ledger.Ledger) {
	t.Helper()
	if s.next == nil || s.of != l {
		s.of = l
		next, stop := iter.Pull(l.AuditStepsOf(1 + s.audits%3))
		s.next = next
		t.Cleanup(stop)
	}
	result, _ := s.next()
	for _, v := range result.Violations {
		t.Fatalf("audit in steps: invariant %d: %s (from revision %d to %d)", v.Invariant, v.Message, result.From, l.Revision())
	}
	if result.Done {
		s.audits++
		s.restarts += result.Restarts
		s.next = nil
	}
}

// working is a ledger with two hosts and a rule for each user, in which each command changes
// something.
type working struct {
	*ledger.Ledger
	t    testing.TB
	now  ledger.Instant
	live []ledger.ID
	n    int
}

func newWorking(t testing.TB, hosts int) *working {
	t.Helper()
	w := &working{Ledger: ledger.New(ledger.Config{}, newPlainPlacer()), t: t, now: 1}
	for _, text := range []string{"*", "user=*"} {
		selector, err := label.ParseSelector(text)
		w.check(err)
		w.check(w.PutQuota(w.now, ledger.Quota{Selector: selector, Limit: resource.Vector{}.WithMemory(1 << 40)}))
	}
	available := int64(1 << 40)
	for i := range hosts {
		id := fmt.Sprintf("h%04d", i)
		_, err := w.Register(w.now, ledger.RegisterCommand{HostID: id, Incarnation: 1, Capacity: resource.Vector{}.WithMemory(1 << 40)})
		w.check(err)
		_, err = w.Sync(w.now, ledger.SyncCommand{HostID: id, Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available}})
		w.check(err)
	}
	return w
}

func (w *working) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// grant makes one more allocation, of one of seven users.
func (w *working) grant() {
	w.t.Helper()
	w.n++
	w.now = w.now.Add(time.Millisecond)
	result, err := w.Allocate(w.now, ledger.AllocateCommand{
		Actor: identity.Local(), RequestID: fmt.Sprint(w.n), Labels: label.Of("user", fmt.Sprint("u", w.n%7)),
		Wishes: &ledger.Wishes{Host: "h0000"}, Resource: resource.NewResource(resource.Vector{}.WithMemory(int64(1 + w.n%5))), ReservationTTL: time.Hour,
	})
	w.check(err)
	w.live = append(w.live, result.Allocation.ID)
	w.Changes()
}

// end releases the oldest allocation.
func (w *working) end() {
	w.t.Helper()
	_, err := w.Release(w.now, ledger.ReleaseCommand{Actor: identity.Local(), ID: w.live[0]})
	w.check(err)
	w.live = w.live[1:]
	w.Changes()
}

// What changes between two steps is no violation, and all is looked at.
func TestAnAuditInStepsFollowsWhatChanges(t *testing.T) {
	w := newWorking(t, 2)
	for range 40 {
		w.grant()
	}
	steps := 0
	var last *ledger.AuditResult
	for last = range w.AuditStepsOf(4) {
		steps++
		w.grant()
		if steps%3 > 0 {
			w.end()
		}
		if steps%2 == 0 {
			_, err := w.Resize(w.now, ledger.ResizeCommand{Actor: identity.Local(), ID: w.live[len(w.live)/2], Entitled: resource.NewResource(resource.Vector{}.WithMemory(int64(steps)))})
			w.check(err)
		}
	}
	if !last.Done || len(last.Violations) > 0 || last.Restarts != 0 {
		t.Errorf("%+v", *last)
	}
	if steps < 12 || last.Accounts != 10 || last.From >= last.To {
		t.Errorf("%d steps, %+v; want 12 at least, and 10 accounts", steps, *last)
	}
}

// An audit that counts by rules which are not in force any more begins again.
func TestAnAuditBeginsAnewWhenTheRulesAreReplaced(t *testing.T) {
	w := newWorking(t, 2)
	for range 40 {
		w.grant()
	}
	steps := 0
	var last *ledger.AuditResult
	for last = range w.AuditStepsOf(4) {
		if steps++; steps == 5 || steps == 15 {
			selector, err := label.ParseSelector(fmt.Sprintf("user=u%d", steps%7))
			w.check(err)
			w.check(w.PutQuota(w.now, ledger.Quota{Selector: selector, Limit: resource.Vector{}.WithMemory(1 << 40)}))
		}
	}
	if !last.Done || len(last.Violations) > 0 || last.Restarts != 2 {
		t.Errorf("%+v; want 2 restarts and no violation", *last)
	}
}

// No step looks at more than its size, and at what has changed since the one before.
func TestStepsOfAnAuditAreSmallInALargeLedger(t *testing.T) {
	w := newWorking(t, 1000)
	for range 3000 {
		w.grant()
	}
	steps, before := 0, ledger.AuditResult{}
	for result := range w.AuditSteps() {
		steps++
		if n := result.Allocations + result.Accounts - before.Allocations - before.Accounts; n > 600 {
			t.Errorf("step %d looked at %d", steps, n)
		}
		before = *result
	}
	if steps < 12 || before.Accounts != 1008 || before.Allocations != 3000 {
		t.Errorf("%d steps, %+v", steps, before)
	}
}

// An audit that nobody goes on with costs little, and does not keep others from ending.
func TestAnAuditThatIsGivenUpLeavesTheLedgerAsItWas(t *testing.T) {
	w := newWorking(t, 2)
	for range 10 {
		w.grant()
	}
	for range w.AuditStepsOf(4) {
		break
	}
	if w.Auditing() {
		t.Error("the ledger keeps an audit that nobody goes on with")
	}
	w.grant()
	w.end()
	if v := w.Audit(); len(v) > 0 {
		t.Error(v)
	}
}

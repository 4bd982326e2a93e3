package ledger_test

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// bruteCallers are the callers: one at a coordinator, and some at the agents of two hosts.
var bruteCallers = []string{"local", "alice@h0", "bob@h1"}

// ask sends a request that nobody remembers.
func (b *brute) ask(i int) {
	c := b.asked[i]
	before := b.ledger.Revision()
	result, err := b.ledger.Allocate(b.now, c)
	if err != nil {
		b.judgeRefused(&c, before, err)
		return
	}
	a := &result.Allocation
	if a.State == ledger.Waiting && c.Wait <= 0 || c.Wait > 0 && a.WaitDeadline != b.now.Add(c.Wait) {
		b.t.Fatalf("seed %d: %s waits until %v; it has %v", b.seed, a.ID, a.WaitDeadline, c.Wait)
	}
	b.of[i] = a.ID
	if a.State == ledger.Waiting && !c.Async {
		b.line[a.ID] = []ledger.Instant{a.WaitDeadline}
	}
}

// judgeRefused looks at the refusal of a request that is new.
func (b *brute) judgeRefused(c *ledger.AllocateCommand, before uint64, err error) {
	if b.ledger.Revision() != before {
		b.t.Fatalf("seed %d: a refusal changes something: %v", b.seed, err)
	}
	if _, is := errors.AsType[*ledger.FieldError](err); is && c.Wishes != nil && c.Wishes.Host != "" && !b.hosts[c.Wishes.Host].suits(c.Wishes) {
		return
	}
	v := c.Resource.Vector
	if !v.Has(resource.Instances) {
		v = v.WithInstances(1)
	}
	b.judgeRefusal(&ledger.Allocation{Labels: c.Labels, Wishes: c.Wishes, Entitled: resource.Resource{Vector: v, External: c.Resource.External}}, err)
	if refusal, _ := errors.AsType[*ledger.InsufficientError](err); c.Wait > 0 && refusal.Reason != ledger.ReasonNever {
		b.t.Fatalf("seed %d: who would wait is refused: %v", b.seed, err)
	}
}

// allocateAgain repeats a request, or sends another one under its id: invariant 5. A repeat may
// have another wait, and it may have a caller that waits although the first had none, or none
// although the first had one.
func (b *brute) allocateAgain() {
	if len(b.asked) == 0 {
		return
	}
	i := b.random.IntN(len(b.asked))
	// as those do who were cut off
	if gone := slices.Sorted(maps.Keys(b.alone)); len(gone) > 0 && b.random.IntN(3) > 0 {
		i = max(0, slices.Index(b.of, gone[b.random.IntN(len(gone))]))
	} else if waits := b.pick(ledger.Waiting); waits != nil && b.random.IntN(2) == 0 {
		i = max(0, slices.Index(b.of, waits.ID))
	}
	c, id := b.asked[i], b.of[i]
	if id == 0 {
		b.ask(i) // refusals are not remembered
		return
	}
	c.Async, c.Wait = b.random.IntN(3) == 0, time.Duration(max(0, b.random.IntN(4)-1))*20*time.Second
	other := b.random.IntN(5) == 0
	if other {
		c.RequestHash += 1 << 32
	}
	a := b.live[id]
	waits := a != nil && a.State == ledger.Waiting
	before := b.ledger.Revision()
	result, err := b.ledger.Allocate(b.now, c)
	changes := b.ledger.Revision() != before
	_, conflict := errors.AsType[*ledger.ConflictError](err)
	switch {
	case other != conflict:
		b.t.Fatalf("seed %d: another body %t, conflict %t", b.seed, other, conflict)
	case changes && (other || !waits || c.Async):
		b.t.Fatalf("seed %d: a repeat changes something", b.seed)
	case other:
	case waits && !c.Async:
		b.judgeRepeat(a, &c, &result.Allocation, changes, err)
	case err != nil || result.Allocation.ID != id || result.Ended != (a == nil):
		b.t.Fatalf("seed %d: a repeat of %s is %s, ended %t; it lives: %t: %v", b.seed, id, result.Allocation.ID, result.Ended, a != nil, err)
	}
}

// judgeRepeat checks the repeat of a waiting request by a caller that waits. It is granted if
// there is room. Else it waits on, in its old place. If the caller does not want to wait, it is
// refused and the request stays as it was.
func (b *brute) judgeRepeat(a *ledger.Allocation, c *ledger.AllocateCommand, now *ledger.Allocation, changes bool, err error) {
	b.asks = a.ID
	switch {
	case err == nil && (now.ID != a.ID || now.State == ledger.Waiting && (changes || c.Wait <= 0 || now.WaitDeadline != a.WaitDeadline)):
		b.t.Fatalf("seed %d: a repeat of %s with a wait of %v is %+v", b.seed, a.ID, c.Wait, *now)
	case err == nil && now.State == ledger.Waiting:
		b.line[a.ID] = append(b.line[a.ID], b.now.Add(c.Wait))
		delete(b.alone, a.ID)
	case err == nil:
	case changes || c.Wait > 0:
		b.t.Fatalf("seed %d: a repeat of %s with a wait of %v changes something, %t, and is refused: %v", b.seed, a.ID, c.Wait, changes, err)
	default:
		b.judgeRefusal(a, err)
		if refusal, _ := errors.AsType[*ledger.InsufficientError](err); len(refusal.Shortfalls) == 0 && refusal.Filters == nil {
			b.t.Fatalf("seed %d: a repeat of %s is refused for nothing: %v", b.seed, a.ID, err)
		}
	}
}

// hangUp is a waiting caller that goes away.
func (b *brute) hangUp() {
	if ids := slices.Sorted(maps.Keys(b.line)); len(ids) > 0 {
		id := ids[b.random.IntN(len(ids))]
		b.detach(id, b.random.IntN(len(b.line[id])))
	}
}

// leave makes callers go away that do not want to wait any longer, which may be before their
// request's wait is over.
func (b *brute) leave() {
	for _, id := range slices.Sorted(maps.Keys(b.line)) {
		for {
			i := slices.IndexFunc(b.line[id], func(until ledger.Instant) bool { return until <= b.now })
			if i < 0 {
				break
			}
			b.detach(id, i)
		}
	}
}

func (b *brute) detach(id ledger.ID, caller int) {
	b.line[id] = slices.Delete(b.line[id], caller, caller+1)
	if len(b.line[id]) == 0 {
		delete(b.line, id)
		b.alone[id] = b.now
	}
	b.ledger.Detach(b.now, id)
	b.follow()
}

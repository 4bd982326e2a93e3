package ledger_test

import (
	"slices"
	"strings"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// next are the states that may follow a state; none is the state before the first.
func next(s ledger.State) []ledger.State {
	switch s {
	case ledger.Waiting:
		return []ledger.State{ledger.Reserved, ledger.Released, ledger.Expired, ledger.Canceled}
	case ledger.Reserved:
		return []ledger.State{ledger.Waiting, ledger.Reserved, ledger.Active, ledger.Released, ledger.Expired, ledger.Canceled}
	case ledger.Active:
		return []ledger.State{ledger.Active, ledger.Released, ledger.Expired}
	default:
		return []ledger.State{ledger.Waiting, ledger.Reserved, ledger.Active}
	}
}

// follow applies what the ledger announces, in order, and judges each grant at its time.
func (b *brute) follow() {
	changes := b.ledger.Changes()
	b.ledger.Durable(b.now, changes.Revision)
	b.stored.apply(&changes)
	for _, a := range changes.Transitions {
		before, known := b.live[a.ID]
		was := ledger.State(0)
		if known {
			was = before.State
		}
		if !slices.Contains(next(was), a.State) || was == 0 && a.State == ledger.Active != b.adopted[a.ID] {
			b.t.Fatalf("seed %d: %s is %s after %s", b.seed, a.ID, a.State, was)
		}
		if !a.State.Live() {
			b.judgeEnd(before, &a)
			b.forget(&a)
			continue
		}
		if a.State == ledger.Reserved && was == ledger.Waiting {
			b.judgeTurn(before)
		}
		if a.State != ledger.Waiting {
			delete(b.line, a.ID)
			delete(b.alone, a.ID)
		} else if was.Holds() { // vetoed: the caller has got the grant
			b.alone[a.ID] = b.now
		}
		if b.adopted[a.ID] && was == 0 && a.OverLimit != b.overLimit(&a) {
			b.t.Fatalf("seed %d: %s is adopted with %s, over a limit: %t", b.seed, a.ID, a.Entitled, a.OverLimit)
		}
		b.live[a.ID] = &a
		switch {
		case was.Holds() && !a.Entitled.Equal(before.Entitled):
			b.judgeGrant(&a, before)
		case a.State == ledger.Reserved && !was.Holds():
			b.judgeGrant(&a, nil)
		}
	}
}

// forget takes out what has ended.
func (b *brute) forget(a *ledger.Allocation) {
	delete(b.live, a.ID)
	delete(b.line, a.ID)
	delete(b.alone, a.ID)
	delete(b.adopted, a.ID)
	if i := slices.Index(b.of, a.ID); i >= 0 && a.Forget {
		b.of[i] = 0
	}
}

// present reports whether somebody waits for a grant or will look for it.
func (b *brute) present(a *ledger.Allocation) bool { return a.Async || len(b.line[a.ID]) > 0 }

// judgeEnd looks at an end that nobody asked for: it must have been due.
func (b *brute) judgeEnd(before, a *ledger.Allocation) {
	due := before.Expires
	switch {
	case a.ID == b.asks:
		return
	case a.State == ledger.Canceled && before.State == ledger.Waiting && !b.present(before):
		due = b.alone[a.ID].Add(10 * time.Second)
	case a.State != ledger.Expired:
		b.t.Fatalf("seed %d: %s, %s, is %s, and nobody asked for that: %s", b.seed, a.ID, before.State, a.State, a.Reason)
	case before.State == ledger.Waiting:
		due = before.WaitDeadline
	}
	if due == 0 || due > b.now {
		b.t.Fatalf("seed %d: %s, %s, is over at %v; it was due at %v", b.seed, a.ID, before.State, b.now, due)
	}
}

// judgeTurn checks which request is granted: of those that ask for the same, the first one, and
// none without a caller.
func (b *brute) judgeTurn(a *ledger.Allocation) {
	if !b.present(a) && a.ID != b.asks {
		b.t.Fatalf("seed %d: %s is granted while nobody is on its line", b.seed, a.ID)
	}
	for id, other := range b.live {
		same := other.State == ledger.Waiting && other.Caller == a.Caller && other.Labels.Equal(a.Labels) && other.Entitled.Equal(a.Entitled) &&
			b.present(other) && sameWishes(other.Wishes, a.Wishes)
		if same && id < a.ID {
			b.t.Fatalf("seed %d: %s is granted before %s, which asked for the same before", b.seed, a.ID, id)
		}
	}
}

func sameWishes(v, w *ledger.Wishes) bool {
	if v == nil || w == nil {
		return v == w
	}
	return v.Host == w.Host && v.Required.Equal(w.Required) && slices.Equal(v.Avoid, w.Avoid)
}

// judgeRest checks the state after a step: nothing is overdue, and no request waits for what is
// free.
func (b *brute) judgeRest() {
	b.judgeBooks()
	b.judgeBytes()
	held := b.anythingHeld()
	for _, a := range b.live {
		switch {
		case a.State == ledger.Waiting && a.WaitDeadline <= b.now:
			b.t.Fatalf("seed %d: invariant 7: %s waits after its deadline", b.seed, a.ID)
		case a.State.Holds() && a.Expires != 0 && a.Expires <= b.now:
			b.t.Fatalf("seed %d: %s is %s after it expired", b.seed, a.ID, a.State)
		case a.State == ledger.Waiting && !b.present(a) && b.alone[a.ID].Add(10*time.Second) <= b.now:
			b.t.Fatalf("seed %d: %s waits, and nobody has been on its line since %v", b.seed, a.ID, b.alone[a.ID])
		case a.State == ledger.Waiting && !held && b.present(a) && b.fits(a):
			b.t.Fatalf("seed %d: %s waits although nothing is short: %s", b.seed, a.ID, a.Entitled)
		}
	}
	for id, a := range b.live {
		if a.State == ledger.Waiting && b.present(a) && !held {
			b.judgeReason(id, a)
		}
	}
	if violations := b.ledger.Audit(); len(violations) > 0 {
		b.t.Fatalf("seed %d: %v", b.seed, violations)
	}
}

// judgeReason checks what a request is said to wait for: it must be short now, even if it was not
// when the wait began.
func (b *brute) judgeReason(id ledger.ID, a *ledger.Allocation) {
	says, _ := b.ledger.Get(id)
	_, account, _ := strings.Cut(says.Reason, "waits for ")
	account, _, _ = strings.Cut(account, ", which ") // what it lacks
	for _, p := range b.purses(a) {
		if p.name == account && len(b.lacks(p, p.has(a))) == 0 {
			b.t.Fatalf("seed %d: %s has %s for %s, which is said to wait for that", b.seed, account, a.Entitled, id)
		}
	}
	name, is := strings.CutPrefix(account, "host ")
	name, _, absent := strings.Cut(name, " to have ")
	absent = absent || strings.Contains(account, "none is there yet")
	if absent && b.couldFitSomewhere(a) {
		b.t.Fatalf("seed %d: a host is large enough for %s, which is said to wait for %s", b.seed, id, account)
	}
	if is && !absent {
		if h := b.hosts[name]; h.suits(a.Wishes) && b.takes(h, quantities(a.Entitled.Vector)) {
			b.t.Fatalf("seed %d: host %s takes %s, which is said to wait for it", b.seed, name, id)
		}
	}
}

package ledger_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// step gives one random command and judges all that came of it.
func (b *brute) step() {
	switch b.random.IntN(17) {
	case 0, 1, 2, 3, 4, 5:
		b.allocate()
	case 6:
		b.allocateAgain()
	case 7, 8:
		b.end()
	case 9, 10:
		b.confirm()
	case 11:
		b.resize()
	case 12:
		b.renew()
	case 13:
		b.changeLimits()
	case 14:
		b.changeHost()
	case 15:
		b.advance()
	case 16:
		b.nameOthers()
	}
	b.follow()
	b.ledger.Advance(b.now) // what is due at once
	b.follow()
	b.judgeRest()
}

// pick is one of the live allocations in these states; nil where there is none.
func (b *brute) pick(states ...ledger.State) *ledger.Allocation {
	var list []*ledger.Allocation
	for _, id := range slices.Sorted(maps.Keys(b.live)) {
		if slices.Contains(states, b.live[id].State) {
			list = append(list, b.live[id])
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[b.random.IntN(len(list))]
}

func (b *brute) allocate() {
	labels := label.Of("user", []string{"alice", "bob", "carol"}[b.random.IntN(3)])
	if b.random.IntN(2) == 0 {
		labels = labels.With("creator", []string{"IDE", "batch"}[b.random.IntN(2)])
	}
	c := ledger.AllocateCommand{
		Actor: identity.Local(), Labels: labels, ReservationTTL: time.Duration(5+b.random.IntN(60)) * time.Second, Async: true,
		RequestID: fmt.Sprintf("r%d", len(b.asked)), RequestHash: uint64(len(b.asked)) + 1,
	}
	v := resource.Vector{}.WithMemory(b.upTo(5)).WithCPU(b.upTo(5))
	if b.random.IntN(4) == 0 {
		v = v.With("gpu", b.upTo(1)).WithInstances(b.upTo(2))
	}
	c.Resource = resource.NewResource(v)
	if b.random.IntN(3) == 0 {
		path := []string{"root.a", "root.a.x", "root.b"}[b.random.IntN(3)]
		at := resource.Address{Kind: "yarn", Cluster: "c1", Path: path}
		c.Resource = resource.NewResource(v, resource.External{Address: at, Vector: resource.Vector{}.WithMemory(b.upTo(4)).WithCPU(b.upTo(4))})
	}
	if b.random.IntN(3) == 0 {
		c.Wishes = &ledger.Wishes{Host: slices.Sorted(maps.Keys(b.hosts))[b.random.IntN(len(b.hosts))]}
	}
	if len(b.asked) > 0 && b.random.IntN(3) == 0 { // several who want the same: the first of them gets it
		like := b.asked[b.random.IntN(len(b.asked))]
		c.Labels, c.Resource, c.Wishes = like.Labels, like.Resource, like.Wishes
	}
	if b.random.IntN(2) == 0 {
		c.Wait = time.Duration(1+b.random.IntN(90)) * time.Second
	}
	b.ask(c)
}

// ask sends a request for the first time.
func (b *brute) ask(c ledger.AllocateCommand) {
	before := b.ledger.Revision()
	result, err := b.ledger.Allocate(b.now, c)
	id := result.Allocation.ID
	if err != nil {
		if b.ledger.Revision() != before {
			b.t.Fatalf("seed %d: a refusal changes something: %v", b.seed, err)
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
	b.asked, b.of = append(b.asked, c), append(b.of, id)
}

// allocateAgain repeats a request, or sends another one under its id: invariant 5.
func (b *brute) allocateAgain() {
	if len(b.asked) == 0 {
		return
	}
	i := b.random.IntN(len(b.asked))
	c, id := b.asked[i], b.of[i]
	if id == 0 {
		return // refusals are not remembered
	}
	other := b.random.IntN(3) == 0
	if other {
		c.RequestHash += 1 << 32
	}
	before := b.ledger.Revision()
	result, err := b.ledger.Allocate(b.now, c)
	_, conflict := errors.AsType[*ledger.ConflictError](err)
	_, live := b.live[id]
	switch {
	case b.ledger.Revision() != before:
		b.t.Fatalf("seed %d: a repeat changes something", b.seed)
	case other != conflict:
		b.t.Fatalf("seed %d: another body %t, conflict %t", b.seed, other, conflict)
	case !other && (result.Allocation.ID != id || result.Ended == live):
		b.t.Fatalf("seed %d: a repeat of %s is %s, ended %t; it lives: %t", b.seed, id, result.Allocation.ID, result.Ended, live)
	}
}

// end ends one, and then once more.
func (b *brute) end() {
	a := b.pick(ledger.Waiting, ledger.Reserved, ledger.Active)
	if a == nil {
		return
	}
	id, do := a.ID, b.random.IntN(2)
	for again := range 2 {
		before := b.ledger.Revision()
		var err error
		if do == 0 || a.State == ledger.Active {
			_, err = b.ledger.Release(b.now, ledger.ReleaseCommand{Actor: identity.Local(), ID: id})
		} else {
			_, err = b.ledger.Cancel(b.now, ledger.CancelCommand{Actor: identity.Local(), ID: id})
		}
		if _, unknown := errors.AsType[*ledger.NotFoundError](err); unknown != (again == 1) || again == 0 && err != nil {
			b.t.Fatalf("seed %d: the end of %s, %d times before: %v", b.seed, id, again, err)
		}
		if again == 1 && b.ledger.Revision() != before {
			b.t.Fatalf("seed %d: the second end of %s has an effect", b.seed, id)
		}
	}
	b.follow()
	if _, live := b.live[id]; live {
		b.t.Fatalf("seed %d: %s ended and lives", b.seed, id)
	}
}

func (b *brute) confirm() {
	a := b.pick(ledger.Waiting, ledger.Reserved, ledger.Active)
	if a == nil {
		return
	}
	state := a.State
	c := ledger.ConfirmCommand{Actor: identity.Local(), ID: a.ID, Address: "somewhere"}
	if b.random.IntN(3) == 0 {
		c.Lease = 30 * time.Second
	}
	_, err := b.ledger.Confirm(b.now, c)
	if (err == nil) != state.Holds() {
		b.t.Fatalf("seed %d: %s is %s; its confirmation: %v", b.seed, a.ID, state, err)
	}
}

func (b *brute) renew() {
	a := b.pick(ledger.Waiting, ledger.Reserved, ledger.Active)
	if a == nil {
		return
	}
	renewable := a.State == ledger.Reserved || a.State == ledger.Active && a.Lease > 0
	now, err := b.ledger.Renew(b.now, ledger.RenewCommand{Actor: identity.Local(), ID: a.ID, TTL: 20 * time.Second})
	if (err == nil) != renewable || err == nil && now.Expires != b.now.Add(20*time.Second) {
		b.t.Fatalf("seed %d: %s is %s with a lease of %s; renewed it expires at %v: %v", b.seed, a.ID, a.State, a.Lease, now.Expires, err)
	}
}

func (b *brute) resize() {
	a := b.pick(ledger.Reserved, ledger.Active)
	if a == nil {
		return
	}
	was, next := a.Entitled, resource.Vector{}.WithMemory(b.upTo(6)).WithCPU(b.upTo(6))
	_, err := b.ledger.Resize(b.now, ledger.ResizeCommand{Actor: identity.Local(), ID: a.ID, Entitled: resource.NewResource(next)})
	if err == nil {
		return
	}
	if next.Memory() <= was.Memory() && next.CPU() <= was.CPU() {
		b.t.Fatalf("seed %d: %s of %s may not shrink to %s: %v", b.seed, a.ID, was, next, err)
	}
	more := resource.Vector{}.WithMemory(max(0, next.Memory()-was.Memory())).WithCPU(max(0, next.CPU()-was.CPU()))
	rest := *a
	rest.Entitled = resource.NewResource(more)
	rest.Wishes = &ledger.Wishes{Host: a.HostID}
	if !b.anythingHeld() && b.fits(&rest) {
		b.t.Fatalf("seed %d: %s of %s on %s may not grow to %s although nothing is short: %v", b.seed, a.ID, was, a.HostID, next, err)
	}
}

func (b *brute) changeLimits() {
	if b.random.IntN(2) == 0 {
		b.setRules()
	} else {
		b.reportQueues()
	}
}

func (b *brute) changeHost() {
	h := b.hosts[slices.Sorted(maps.Keys(b.hosts))[b.random.IntN(len(b.hosts))]]
	if b.random.IntN(3) > 0 {
		b.sample(h)
		return
	}
	var err error
	if h.cordoned = !h.cordoned; h.cordoned {
		_, err = b.ledger.Cordon(b.now, h.id, "")
	} else {
		_, err = b.ledger.Uncordon(b.now, h.id)
	}
	must(b.t, err)
}

// nameOthers is a report of a host that names everything that waits or is on others. It knows all of it but one thing.
func (b *brute) nameOthers() {
	h := b.hosts[slices.Sorted(maps.Keys(b.hosts))[b.random.IntN(len(b.hosts))]]
	h.sequence++
	c := ledger.SyncCommand{HostID: h.id, Incarnation: 1, Sequence: h.sequence, Full: true, Seen: b.ledger.Revision()}
	for _, id := range slices.Sorted(maps.Keys(b.live)) {
		grant := *b.live[id]
		if grant.State.Holds() && grant.HostID == h.id {
			continue
		}
		grant.Process.PID = 1
		switch b.random.IntN(5) {
		case 0:
			grant.Created--
		case 1:
			grant.Caller += "2"
		case 2:
			grant.RequestID += "2"
		case 3:
			grant.Labels = grant.Labels.With("more", "of it")
		case 4:
			grant.Requested.Vector = grant.Requested.WithMemory(grant.Requested.Memory() + 1)
		}
		c.Engines = append(c.Engines, ledger.EngineReport{ID: id, Grant: &grant})
	}
	before := b.ledger.Revision()
	result, err := b.ledger.Sync(b.now, c)
	must(b.t, err)
	if b.ledger.Revision() != before || result.NotTaken.Count != len(c.Engines) {
		b.t.Fatalf("seed %d: a host names %d that it does not have, %d are not taken in, and something changes: %t",
			b.seed, len(c.Engines), result.NotTaken.Count, b.ledger.Revision() != before)
	}
}

// advance lets time pass, in which every host reports often enough.
func (b *brute) advance() {
	for range 1 + b.random.IntN(12) {
		b.now = b.now.Add(time.Duration(1+b.random.IntN(5)) * time.Second)
		b.ledger.Advance(b.now)
		b.follow()
		for _, id := range slices.Sorted(maps.Keys(b.hosts)) {
			b.sample(b.hosts[id])
			b.follow()
		}
	}
}

// next are the states that may follow one; none is that of what was not there.
func next(s ledger.State) []ledger.State {
	switch s {
	case ledger.Waiting:
		return []ledger.State{ledger.Reserved, ledger.Released, ledger.Expired, ledger.Canceled}
	case ledger.Reserved:
		return []ledger.State{ledger.Reserved, ledger.Active, ledger.Released, ledger.Expired, ledger.Canceled}
	case ledger.Active:
		return []ledger.State{ledger.Active, ledger.Released, ledger.Expired}
	default:
		return []ledger.State{ledger.Waiting, ledger.Reserved}
	}
}

// follow takes in what the ledger announces, in its order, and judges each grant at its moment.
func (b *brute) follow() {
	changes := b.ledger.Changes()
	b.ledger.Durable(b.now, changes.Revision)
	for _, a := range changes.Transitions {
		before, known := b.live[a.ID]
		was := ledger.State(0)
		if known {
			was = before.State
		}
		if !slices.Contains(next(was), a.State) {
			b.t.Fatalf("seed %d: %s is %s after %s", b.seed, a.ID, a.State, was)
		}
		if !a.State.Live() {
			b.judgeEnd(before, &a)
			delete(b.live, a.ID)
			continue
		}
		if a.State == ledger.Reserved && was == ledger.Waiting {
			b.judgeTurn(before)
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

// judgeEnd looks at an end that nobody asked for: it must have been due.
func (b *brute) judgeEnd(before, a *ledger.Allocation) {
	if a.State != ledger.Expired {
		return
	}
	due := before.Expires
	if before.State == ledger.Waiting {
		due = before.WaitDeadline
	}
	if due == 0 || due > b.now {
		b.t.Fatalf("seed %d: %s, %s, is over at %v; it was due at %v", b.seed, a.ID, before.State, b.now, due)
	}
}

// judgeTurn looks at who is granted: of those who ask for the very same whoever came first.
func (b *brute) judgeTurn(a *ledger.Allocation) {
	for id, other := range b.live {
		same := other.State == ledger.Waiting && other.Labels.Equal(a.Labels) && other.Entitled.Equal(a.Entitled) &&
			(other.Wishes == nil) == (a.Wishes == nil) && (a.Wishes == nil || other.Wishes.Host == a.Wishes.Host)
		if same && id < a.ID {
			b.t.Fatalf("seed %d: %s is granted before %s, which asked for the same before", b.seed, a.ID, id)
		}
	}
}

// judgeRest looks at what has settled: nothing is overdue, and nobody waits for what is there.
func (b *brute) judgeRest() {
	b.judgeBooks()
	held := b.anythingHeld()
	for _, a := range b.live {
		switch {
		case a.State == ledger.Waiting && a.WaitDeadline <= b.now:
			b.t.Fatalf("seed %d: invariant 7: %s waits after its deadline", b.seed, a.ID)
		case a.State.Holds() && a.Expires != 0 && a.Expires <= b.now:
			b.t.Fatalf("seed %d: %s is %s after it expired", b.seed, a.ID, a.State)
		case a.State == ledger.Waiting && !held && b.fits(a):
			b.t.Fatalf("seed %d: %s waits although nothing is short: %s", b.seed, a.ID, a.Entitled)
		}
	}
	if violations := b.ledger.Audit(); len(violations) > 0 {
		b.t.Fatalf("seed %d: %v", b.seed, violations)
	}
}

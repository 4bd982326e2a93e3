package ledger_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// step gives one random command and judges all that came of it.
func (b *brute) step() {
	b.asks = 0
	switch b.random.IntN(26) {
	case 0, 1, 2, 3, 4, 5:
		b.allocate()
	case 6, 7:
		b.allocateAgain()
	case 8, 9:
		b.end()
	case 10, 11:
		b.confirm()
	case 12, 13:
		b.resize()
	case 14:
		b.renew()
	case 15:
		b.changeLimits()
	case 16:
		b.changeHost()
	case 17:
		b.advance()
	case 18:
		b.nameOthers()
	case 19, 20:
		b.hangUp()
	case 21:
		b.adopt()
	case 22:
		b.veto()
	case 23, 24:
		b.register(b.host())
	case 25:
		b.restart()
	}
	b.follow()
	b.ledger.Advance(b.now) // what is due at once
	b.follow()
	b.judgeRest()
}

// pick is one of the live allocations in these states; nil if there is none.
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
	actor := identity.Local()
	actor.Name = bruteCallers[b.random.IntN(len(bruteCallers))]
	c := ledger.AllocateCommand{
		Actor: actor, Labels: labels, ReservationTTL: time.Duration(5+b.random.IntN(60)) * time.Second, Async: b.random.IntN(2) == 0,
		RequestID: fmt.Sprintf("r%d", len(b.asked)), RequestHash: uint64(len(b.asked)) + 1,
	}
	c.Resource, c.Wishes = resource.NewResource(b.vector(), b.parts()...), b.wishes()
	// several requests for the same: the first of them gets it
	if len(b.asked) > 0 && b.random.IntN(3) == 0 {
		like := b.asked[b.random.IntN(len(b.asked))]
		c.Actor, c.Labels, c.Resource = like.Actor, like.Labels, like.Resource
		if b.random.IntN(4) > 0 {
			c.Wishes = like.Wishes
		}
	}
	if b.random.IntN(3) > 0 {
		c.Wait = time.Duration(1+b.random.IntN(90)) * time.Second
	}
	b.asked, b.of = append(b.asked, c), append(b.of, 0)
	b.ask(len(b.asked) - 1)
}

func (b *brute) vector() resource.Vector {
	v := resource.Vector{}.WithMemory(b.upTo(5)).WithCPU(b.upTo(5))
	if b.random.IntN(4) == 0 {
		v = v.With("gpu", 1).WithInstances(1 + b.upTo(1))
	}
	return v
}

// parts are up to three, in different queues, which may be one below the other.
func (b *brute) parts() (list []resource.External) {
	if b.random.IntN(2) == 0 {
		return nil
	}
	for _, i := range b.random.Perm(len(bruteQueues) - 1)[:1+b.random.IntN(3)] {
		at := resource.Address{Kind: "yarn", Cluster: "c1", Path: bruteQueues[1+i]}
		list = append(list, resource.External{Address: at, Vector: resource.Vector{}.WithMemory(b.upTo(4)).WithCPU(b.upTo(4))})
	}
	return list
}

func (b *brute) wishes() *ledger.Wishes {
	if b.random.IntN(2) == 0 {
		return nil
	}
	h := b.host()
	w := new(ledger.Wishes)
	switch b.random.IntN(5) {
	case 0:
		w.Host = h.id
	case 1, 2:
		w.Host, w.Required = h.id, h.labels // which it may lose
	case 3:
		w.Required = h.labels
	case 4:
		w.Avoid = []string{h.id}
	}
	return w
}

func (b *brute) host() *bruteHost {
	return b.hosts[slices.Sorted(maps.Keys(b.hosts))[b.random.IntN(len(b.hosts))]]
}

// end ends one, and then once more.
func (b *brute) end() {
	a := b.pick(ledger.Waiting, ledger.Reserved, ledger.Active)
	if a == nil {
		return
	}
	id, do := a.ID, b.random.IntN(2)
	b.asks = id
	for again := range 2 {
		before := b.ledger.Revision()
		var err error
		if do == 0 || a.State == ledger.Active {
			_, err = b.ledger.Release(b.now, ledger.ReleaseCommand{Actor: identity.Local(), ID: id, Force: true})
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
	if (err == nil) != (state == ledger.Reserved || state == ledger.Active && a.Process.PID == 0) {
		b.t.Fatalf("seed %d: %s is %s; its confirmation: %v", b.seed, a.ID, state, err)
	}
}

func (b *brute) renew() {
	a := b.pick(ledger.Waiting, ledger.Reserved, ledger.Active)
	if a == nil {
		return
	}
	renewable := a.State == ledger.Reserved || a.State == ledger.Active && a.Process.PID == 0
	now, err := b.ledger.Renew(b.now, ledger.RenewCommand{Actor: identity.Local(), ID: a.ID, TTL: 20 * time.Second})
	if (err == nil) != renewable || err == nil && now.Expires != b.now.Add(20*time.Second) {
		b.t.Fatalf("seed %d: %s is %s with a lease of %s; renewed it expires at %v: %v", b.seed, a.ID, a.State, a.Lease, now.Expires, err)
	}
}

// resize asks for another vector, or other parts: more, less, or moved from one part to another.
func (b *brute) resize() {
	a := b.pick(ledger.Reserved, ledger.Active)
	if a == nil {
		return
	}
	next := *a
	next.Entitled.External = slices.Clone(a.Entitled.External)
	parts := next.Entitled.External
	switch n := len(parts); {
	case n > 1 && b.random.IntN(2) == 0:
		from, to := b.random.IntN(n), b.random.IntN(n)
		memory, cpu := b.upTo(parts[from].Memory()), b.upTo(parts[from].CPU())
		parts[from].Vector = parts[from].WithMemory(parts[from].Memory() - memory).WithCPU(parts[from].CPU() - cpu)
		parts[to].Vector = parts[to].WithMemory(parts[to].Memory() + memory).WithCPU(parts[to].CPU() + cpu)
	case n > 0 && b.random.IntN(2) == 0:
		part := &parts[b.random.IntN(n)]
		part.Vector = part.WithMemory(b.upTo(6))
	default:
		next.Entitled.Vector = next.Entitled.WithMemory(b.upTo(6)).WithCPU(b.upTo(6))
	}
	held, may := b.anythingHeld(), b.mayBecome(a, &next)
	_, err := b.ledger.Resize(b.now, ledger.ResizeCommand{Actor: identity.Local(), ID: a.ID, Entitled: next.Entitled})
	if err != nil {
		if _, is := errors.AsType[*ledger.InsufficientError](err); !is || !held && may {
			b.t.Fatalf("seed %d: %s of %s on %s may not become %s although nothing is short: %v", b.seed, a.ID, a.Entitled, a.HostID, next.Entitled, err)
		}
		return
	}
	if !may {
		b.t.Fatalf("seed %d: %s of %s on %s becomes %s although something is short", b.seed, a.ID, a.Entitled, a.HostID, next.Entitled)
	}
	b.follow()
	if is := b.live[a.ID].Entitled; !is.Equal(next.Entitled) {
		b.t.Fatalf("seed %d: %s of %s shall become %s and is %s", b.seed, a.ID, a.Entitled, next.Entitled, is)
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
	h := b.host()
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

// advance lets time pass, in which every host reports often enough.
func (b *brute) advance() {
	for range 1 + b.random.IntN(12) {
		b.now = b.now.Add(time.Duration(1+b.random.IntN(5)) * time.Second)
		b.ledger.Advance(b.now)
		b.follow()
		b.leave()
		for _, id := range slices.Sorted(maps.Keys(b.hosts)) {
			b.sample(b.hosts[id])
			b.follow()
		}
	}
}

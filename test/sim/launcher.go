package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// launcher starts engines, one after the other. It runs on a machine and asks the agent there, or
// it is a gateway: then it asks the coordinator and goes to the host of the grant.
type launcher struct {
	w        *World
	name     string
	machine  *machine // nil: a gateway
	link     *link    // of a gateway
	requests uint64
}

// attempt is one request of a launcher and its history.
type attempt struct {
	l        *launcher
	command  ledger.AllocateCommand
	deadline time.Time // of the request
	id       string
	host     *machine
	expires  time.Time // of the reservation
	tries    int       // how often it was asked for
	boot     int       // of the host when the process was started
	process  *process  // nil: not started, or an engine without one
	entitled int64

	// Of the parts in queues:
	parts  []resource.External // as granted
	apps   []*application
	told   []string // those that were named
	naming naming
	remote bool // the engine has no process here: it lives as long as its applications
}

func (w *World) launchLoad() {
	for _, m := range w.hosts {
		for i := range 2 {
			l := &launcher{w: w, name: fmt.Sprintf("%s-ecm%d", m.id, i+1), machine: m}
			l.next()
		}
	}
	for i := range 2 {
		name := fmt.Sprintf("gateway%d", i+1)
		l := &launcher{w: w, name: name, link: w.newLink(name)}
		w.gateways = append(w.gateways, l.link)
		l.next()
	}
}

// next makes another request after a while.
func (l *launcher) next() {
	l.w.after(l.w.between(0, 4*time.Second), "", func() {
		if l.w.calm {
			return
		}
		a := l.draw()
		l.w.tellf("%s asks: %s %s for %s, wait %s", l.name, a.command.RequestID, a.command.Resource, a.command.Labels, a.command.Wait)
		a.ask()
	})
}

// draw draws a request.
func (l *launcher) draw() *attempt {
	w := l.w
	l.requests++
	memory := (1 + w.rng.Int64N(64)) * 64 * mib
	if w.chance(10) {
		memory = (1 + w.rng.Int64N(24)) * gib
	}
	v := resource.Vector{}.WithMemory(memory).WithCPU(w.rng.Int64N(9) * 250)
	switch w.rng.IntN(8) {
	case 0:
		v = v.WithInstances(2)
	case 1:
		v = v.WithCPU(0)
	case 2:
		v = v.WithMemory(0)
	}
	if w.chance(6) {
		v = v.With("gpu", 1)
	}
	a := &attempt{l: l, command: ledger.AllocateCommand{
		Actor:     identity.Actor{Name: l.name, Anyone: true, Priority: true},
		RequestID: fmt.Sprintf("%s-%d", l.name, l.requests), RequestHash: l.requests,
		Labels: label.Of("user", fmt.Sprintf("u%d", 1+w.rng.IntN(3)), "creator", []string{"IDE", "shell"}[w.rng.IntN(2)],
			"team", fmt.Sprintf("t%d", 1+w.rng.IntN(2))),
		Resource: resource.Resource{Vector: v},
		Wait:     time.Duration(w.rng.IntN(3)) * w.between(0, 10*time.Second),
		Priority: int32(w.rng.IntN(2)), //nolint:gosec // 0 or 1
	}}
	switch {
	case l.machine != nil:
		a.command.Wishes = &ledger.Wishes{Host: l.machine.id}
		if w.chance(3) {
			a.command.Wishes.Required = label.Of("zone", "a")
		}
	case w.chance(2):
		a.command.Wishes = &ledger.Wishes{Required: label.Of("zone", []string{"a", "b"}[w.rng.IntN(2)])}
	}
	a.drawParts()
	a.deadline = w.now.Add(a.command.Wait + w.between(0, 10*time.Second))
	return a
}

// ask makes the request, again and again under the same id as long as the outcome is unknown.
func (a *attempt) ask() {
	l := a.l
	done := func(g *bursarv1.Allocation, err error) { a.answered(g, err) }
	if a.tries++; a.tries > 1 && l.w.chance(3) { // every call of a request has its own wait
		a.command.Wait = time.Duration(l.w.rng.IntN(3)) * l.w.between(0, 5*time.Second)
	}
	if l.machine != nil {
		l.machine.agent.allocate(a.command, false, done)
		return
	}
	l.link.call(a.command.Wait, func(c *coord, reply func(answer)) func() {
		return c.allocate(a.command, reply)
	}, func(value any) {
		if r, ok := value.(answerTo); ok {
			done(r.allocation, r.err)
		} else {
			done(nil, errUnavailable)
		}
	})
}

func (a *attempt) answered(g *bursarv1.Allocation, err error) {
	w := a.l.w
	switch {
	case errors.Is(err, errUnavailable), errors.Is(err, errVetoed):
		if w.now.After(a.deadline) {
			w.tellf("%s gives up on %s", a.l.name, a.command.RequestID)
			a.cancel()
			a.l.next()
			return
		}
		w.after(w.between(50*time.Millisecond, time.Second), "", a.ask)
		return
	case err != nil:
		w.tellf("%s: %s is refused: %v", a.l.name, a.command.RequestID, err)
		a.l.next()
		return
	}
	if g.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED {
		w.tellf("%s: %s has become %s", a.l.name, a.command.RequestID, g.GetState())
		a.l.next()
		return
	}
	a.id, a.host = g.GetId(), w.machine(g.GetHostId())
	a.expires = g.GetExpireTime().AsTime()
	a.entitled, a.parts = g.GetEntitled().GetMemoryBytes(), partsOf(g)
	w.callers.grant(a, g)
	w.tellf("%s: %s is granted as %s on %s", a.l.name, a.command.RequestID, a.id, a.host.id)
	if w.chance(10) {
		w.tellf("%s forgets about %s", a.l.name, a.id)
		a.l.next()
		return
	}
	if len(a.parts) == 2 && w.chance(2) {
		a.move()
	}
	w.after(w.between(0, 2*time.Second), "", a.launch)
}

// cancel cancels a request once, whether or not that arrives.
func (a *attempt) cancel() {
	if a.l.machine == nil || a.l.w.chance(2) {
		return
	}
	a.l.machine.agent.command(func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return l.Cancel(now, ledger.CancelCommand{Actor: a.command.Actor, RequestID: a.command.RequestID})
	}, func(*bursarv1.Allocation, error) {})
}

// launch starts the process, if the reservation still holds.
func (a *attempt) launch() {
	w := a.l.w
	if !w.now.Before(a.expires) {
		a.l.next()
		return
	}
	if a.l.machine == nil && !a.host.agent.holds(a.id) {
		// A grant from a coordinator is valid when the host's agent has accepted it.
		w.after(200*time.Millisecond, "", a.launch)
		return
	}
	if a.remote {
		a.submitAll()
		// No cluster accepts it: its reservation returns by itself.
		if len(a.apps) == 0 {
			a.l.next()
			return
		}
		a.confirm()
		return
	}
	if w.chance(4) {
		a.entitled -= a.entitled / 4
	}
	w.callers.offer(a)
	a.boot = a.host.boots
	a.process = a.host.spawn(a.id, a.entitled)
	if !w.chance(6) {
		a.process.dies = w.now.Add(w.between(time.Second, 40*time.Second))
	}
	if a.naming == atOnce {
		a.submitAll()
	}
	a.confirm()
}

// confirm repeats until it is answered or the reservation is over; then the process must end.
func (a *attempt) confirm() {
	w := a.l.w
	p := a.process
	command := a.confirmation()
	if p != nil {
		a.host.agent.show(a.id, p)
	}
	a.host.agent.command(func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return l.Confirm(now, command)
	}, func(g *bursarv1.Allocation, err error) {
		switch {
		case a.gone():
			a.l.next()
		case err == nil:
			w.tellf("%s: %s is confirmed", a.l.name, a.id)
			w.callers.confirm(a)
			if g != nil {
				a.parts = partsOf(g)
			}
			a.submitLater()
			a.running()
		case errors.Is(err, errUnavailable) && w.now.Before(a.expires):
			w.after(200*time.Millisecond, "", a.confirm)
		default:
			w.tellf("%s: %s cannot be confirmed: %v", a.l.name, a.id, err)
			if p != nil {
				a.host.exit(p.pid, "is killed by its launcher")
			}
			a.abandoned()
			a.l.next()
		}
	})
}

// gone reports whether the process has ended or, if there is none, whether no application is left.
func (a *attempt) gone() bool {
	if a.remote {
		return !slices.ContainsFunc(a.apps, func(app *application) bool { return !app.over })
	}
	return a.host.boots != a.boot || a.host.processes[a.process.pid] != a.process
}

// running continues with something else, or waits for the engine's end to give back.
func (a *attempt) running() {
	w := a.l.w
	switch w.rng.IntN(6) {
	case 0, 1:
		a.attend()
		return
	case 2:
		w.after(w.between(0, 10*time.Second), "", a.resize)
	case 3:
		w.after(w.between(0, 10*time.Second), "", a.stopIt)
	}
	a.l.next()
}

// attend waits for the end of the process and releases, as a launcher does.
func (a *attempt) attend() {
	if !a.gone() {
		a.l.w.after(100*time.Millisecond, "", a.attend)
		return
	}
	a.give(0)
}

func (a *attempt) give(times int) {
	id, _ := ledger.ParseID(a.id)
	a.l.w.callers.end(a.id)
	a.host.agent.command(func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return l.Release(now, ledger.ReleaseCommand{Actor: a.command.Actor, ID: id, HostID: a.host.id, ProcessEnded: !a.remote && a.gone()})
	}, func(_ *bursarv1.Allocation, err error) {
		if errors.Is(err, errUnavailable) && times < 20 {
			a.l.w.after(500*time.Millisecond, "", func() { a.give(times + 1) })
			return
		}
		a.l.next()
	})
}

// resize asks for more, or gives back a part.
func (a *attempt) resize() {
	id, _ := ledger.ParseID(a.id)
	if a.gone() {
		return
	}
	if len(a.parts) > 0 && (a.remote || a.l.w.chance(2)) {
		a.resizePart(id)
		return
	}
	memory := a.entitled + (a.l.w.rng.Int64N(9)-2)*64*mib
	size := a.l.w.zeros(resource.Vector{}.WithMemory(memory))
	if a.remote || memory < a.process.most {
		// An engine gives back only what it will not use.
		return
	}
	a.host.agent.command(func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return l.Resize(now, ledger.ResizeCommand{
			Actor: a.command.Actor, ID: id, Entitled: resource.Resource{Vector: size},
		})
	}, func(*bursarv1.Allocation, error) {})
}

// stopIt asks for the end of the engine.
func (a *attempt) stopIt() {
	id, _ := ledger.ParseID(a.id)
	a.host.agent.command(func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return l.Stop(now, ledger.StopCommand{Actor: a.command.Actor, ID: id})
	}, func(*bursarv1.Allocation, error) {})
}

func (w *World) machine(id string) *machine {
	for _, m := range w.hosts {
		if m.id == id {
			return m
		}
	}
	panic("sim: no host " + id)
}

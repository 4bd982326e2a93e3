package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// startsInvariant is that of design §12: no engine begins twice. Beside it, none is left running
// without a booking, and each Start gets an answer.
const startsInvariant = 14

// starts are the engines of callers elsewhere, and what really became of them.
type starts struct {
	w        *World
	executed map[string]int         // how often the engine of an allocation has begun
	running  map[string][]*process  // of a request
	asked    map[string]*startCall  // by request id
	answered map[string]startAnswer // by request id
}

// startAnswer is what a caller was told in the end.
type startAnswer struct {
	id     string
	usable bool
}

// startCall is a Start of a caller that repeats it until it is answered.
type startCall struct {
	starter *starter
	command ledger.AllocateCommand
}

// starter is a caller elsewhere, which starts one engine after the other.
type starter struct {
	s        *starts
	name     string
	link     *link
	requests int
}

func newStarts(w *World) *starts {
	return &starts{w: w, executed: make(map[string]int), running: make(map[string][]*process), asked: make(map[string]*startCall), answered: make(map[string]startAnswer)}
}

func (s *starts) launch() {
	for i := range 4 {
		name := fmt.Sprintf("starter%d", i+1)
		l := &starter{s: s, name: name, link: s.w.newLink(name)}
		s.w.gateways = append(s.w.gateways, l.link)
		l.next()
	}
}

// next starts another engine after a while.
func (l *starter) next() {
	w := l.s.w
	w.after(w.between(0, 3*time.Second), "", func() {
		if w.calm {
			return
		}
		l.requests++
		call := &startCall{starter: l, command: ledger.AllocateCommand{
			Actor: identity.Actor{Name: l.name, Anyone: true}, RequestID: fmt.Sprintf("%s-%d", l.name, l.requests), RequestHash: uint64(l.requests), //nolint:gosec // small
			Labels:   label.Of("user", "u1", "creator", "shell", "team", "t1"),
			Resource: resource.Resource{Vector: resource.Vector{}.WithMemory((1 + w.rng.Int64N(8)) * 64 * mib)},
			Wait:     w.between(0, 10*time.Second),
			Launch:   &ledger.LaunchRequest{Account: "etl", Program: "job", Spec: []byte("what is executed")},
		}}
		if w.chance(4) {
			call.command.Wishes = &ledger.Wishes{Host: w.anyHost().id}
		}
		l.s.asked[call.command.RequestID] = call
		w.tellf("%s starts %s", l.name, call.command.RequestID)
		call.ask()
	})
}

// ask calls Start, and again until it is answered.
func (call *startCall) ask() {
	l, w := call.starter, call.starter.s.w
	l.link.call(call.command.Wait+10*time.Second, func(c *coord, reply func(answer)) func() {
		return c.startEngine(call.command, reply)
	}, func(value any) {
		r, ok := value.(answerTo)
		if !ok {
			w.after(w.between(50*time.Millisecond, time.Second), "", call.ask)
			return
		}
		l.s.answer(call, r)
		// A caller may have missed the answer: it gets the same one.
		if w.chance(4) {
			call.ask()
			return
		}
		l.next()
	})
}

// answer takes the answer of a Start.
func (s *starts) answer(call *startCall, r answerTo) {
	id := call.command.RequestID
	now := startAnswer{r.allocation.GetId(), r.err == nil && r.allocation.GetLaunch().GetLogDirectory() != ""}
	s.w.tellf("%s: %s is answered: %s %s %v", call.starter.name, id, now.id, r.allocation.GetState(), r.err)
	if before, again := s.answered[id]; again && before.usable && now.id != before.id {
		s.w.failf(startsInvariant, "%s was answered with the engine of %s, and then with %s", id, before.id, now.id)
	}
	if now.usable && s.executed[now.id] != 1 {
		s.w.failf(startsInvariant, "%s was answered with the engine of %s, which has begun %d times", id, now.id, s.executed[now.id])
	}
	s.answered[id] = now
}

// execute notes that an engine begins.
func (s *starts) execute(m *machine, p *process, request string) {
	s.w.tally.Executed++
	s.w.tellf("%s: process %d of %s begins", m.id, p.pid, p.id)
	if !p.mayRun {
		s.w.failf(startsInvariant, "%s begins, and its agent has not stored that it may", p.id)
	}
	if s.executed[p.id]++; s.executed[p.id] > 1 || len(s.running[request]) > 0 {
		s.w.failf(startsInvariant, "request %s: the engine of %s begins; it has begun %d times, and %d others of its request", request, p.id, s.executed[p.id], len(s.running[request]))
	}
	s.running[request] = append(s.running[request], p)
}

// ended notes that a process has ended.
func (s *starts) ended(p *process) {
	for request, list := range s.running {
		if i := slices.Index(list, p); i >= 0 {
			s.running[request] = slices.Delete(list, i, i+1)
		}
	}
}

// checkEnd holds that each Start was answered. That no process is left without a booking,
// checkHostEnd holds of all.
func (s *starts) checkEnd() {
	for id := range s.asked {
		if _, answered := s.answered[id]; !answered {
			s.w.failf(startsInvariant, "%s was never answered", id)
		}
	}
	for _, m := range s.w.hosts {
		for _, p := range m.processes {
			if p.held {
				s.w.failf(startsInvariant, "host %s: process %d of %s still waits to begin", m.id, p.pid, p.id)
			}
		}
	}
}

// startEngine serves a Start: it makes the request, and answers when its engine has begun or ended.
func (c *coord) startEngine(command ledger.AllocateCommand, reply func(answer)) (withdraw func()) {
	gone, leave := false, func() {}
	leadership := c.leadership
	var again func()
	again = func() {
		leave = c.allocate(command, func(a answer) {
			r, ok := a.value.(answerTo)
			if a.broken != nil || !ok || r.err != nil {
				reply(a)
				return
			}
			switch r.allocation.GetState() {
			case bursarv1.AllocationState_ALLOCATION_STATE_RESERVED, bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE:
				c.await(r.allocation.GetId(), func() bool { return gone || !c.core.Leading() || c.leadership != leadership }, reply, again)
			default:
				reply(a)
			}
		})
		if leave == nil {
			leave = func() {}
		}
	}
	again()
	return func() {
		gone = true
		leave()
	}
}

// await looks until the engine of an allocation has begun. again asks anew: it has ended, or waits
// for another host.
func (c *coord) await(id string, over func() bool, reply func(answer), again func()) {
	c.then(100*time.Millisecond, func() {
		if over() {
			reply(answer{broken: core.ErrNotLeading})
			return
		}
		number, _ := ledger.ParseID(id)
		a, live := c.core.Ledger().Get(number)
		switch {
		case live && a.Revision > c.durable, live && a.State == ledger.Reserved, live && a.State == ledger.Active && a.Launch() != nil && a.Launch().Row != 0:
			c.await(id, over, reply, again)
		case live && a.State == ledger.Active:
			c.on(reply, func(l *ledger.Ledger, _ ledger.Instant) (ledger.Allocation, error) {
				now, _ := l.Get(number)
				return now, nil
			})
		default:
			again()
		}
	})
}

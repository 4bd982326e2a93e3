package sim

import (
	"fmt"
	"slices"
	"time"

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
	mayRun   map[string]bool        // the allocations of whose engines it was stored that they may have begun
	executed map[string]int         // how often the engine of an allocation has begun
	tries    map[string][]*process  // that have begun, by request
	ready    map[string]string      // the allocation whose engine is stored as ready, by request
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
	return &starts{
		w: w, mayRun: make(map[string]bool), executed: make(map[string]int), tries: make(map[string][]*process), ready: make(map[string]string),
		asked: make(map[string]*startCall), answered: make(map[string]startAnswer),
	}
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
			Launch:   &ledger.LaunchRequest{Account: "etl", Program: "job"},
		}}
		call.drawReadiness()
		if w.chance(4) {
			call.command.Wishes = &ledger.Wishes{Host: w.anyHost().id}
		}
		l.s.asked[call.command.RequestID] = call
		w.tellf("%s starts %s, %s, retries %d", l.name, call.command.RequestID, call.command.Launch.Spec, call.command.Launch.Retries)
		call.ask()
		if w.chance(8) {
			w.after(w.between(0, 10*time.Second), "", call.cancel)
		}
	})
}

// drawReadiness gives two of three requests a readiness, and most of these retries.
func (call *startCall) drawReadiness() {
	w, launch := call.starter.s.w, call.command.Launch
	launch.Watched = !w.chance(3)
	launch.Spec = []byte(call.command.RequestID)
	if launch.Watched {
		launch.Spec = append(launch.Spec, readySuffix...)
		launch.Retries = int32(w.rng.IntN(3)) //nolint:gosec // 0 to 2
	}
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

// cancel wants the engine to end, whether or not that arrives.
func (call *startCall) cancel() {
	call.starter.s.w.tellf("%s cancels %s", call.starter.name, call.command.RequestID)
	call.starter.link.call(0, func(c *coord, reply func(answer)) func() {
		c.on(reply, func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
			return l.Cancel(now, ledger.CancelCommand{Actor: call.command.Actor, RequestID: call.command.RequestID})
		})
		return nil
	}, func(any) {})
}

// answer takes the answer of a Start. It holds that an engine that can be used has begun, once,
// and has become ready.
func (s *starts) answer(call *startCall, r answerTo) {
	id := call.command.RequestID
	now := startAnswer{r.allocation.GetId(), r.err == nil && r.usable}
	s.w.tellf("%s: %s is answered: %s %s, usable %v, %v", call.starter.name, id, now.id, r.allocation.GetState(), now.usable, r.err)
	if before, again := s.answered[id]; again && before.usable && now.id != before.id {
		s.w.failf(startsInvariant, "%s was answered with the engine of %s, and then with %s", id, before.id, now.id)
	}
	if now.usable {
		s.w.tally.Usable++
		s.checkUsable(call, now.id, r.allocation.GetState() == bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE)
	}
	s.answered[id] = now
}

// checkUsable holds that the engine of an answer has begun. One that has ended may have been about
// to: its agent was killed at that moment, and nobody knows.
func (s *starts) checkUsable(call *startCall, id string, active bool) {
	request := call.command.RequestID
	if !active && s.executed[id] == 0 && s.mayRun[id] && !call.command.Launch.Watched {
		return
	}
	if s.executed[id] != 1 {
		s.w.failf(startsInvariant, "%s was answered with the engine of %s, which has begun %d times", request, id, s.executed[id])
		return
	}
	i := slices.IndexFunc(s.tries[request], func(p *process) bool { return p.id == id })
	if i < 0 {
		s.w.failf(startsInvariant, "%s was answered with the engine of %s, which is another request's", request, id)
		return
	}
	if p := s.tries[request][i]; call.command.Launch.Watched && !p.started.isReady(s.w.now) {
		s.w.failf(startsInvariant, "%s was answered with the engine of %s, which was never ready", request, id)
	}
}

// execute notes that an engine begins. It holds that nothing begins twice except as a retry that
// counts, after an engine that was never known to be ready and has ended.
func (s *starts) execute(m *machine, p *process) {
	request := p.started.request
	s.w.tally.Executed++
	s.w.tellf("%s: process %d of %s begins", m.id, p.pid, p.id)
	if m.disk.keepers[p.pid] != nil {
		s.w.failf(startsInvariant, "%s begins, and its agent has not stored that it may", p.id)
	}
	s.executed[p.id]++
	before := len(s.tries[request])
	switch retries := int(s.asked[request].command.Launch.Retries); {
	case s.executed[p.id] > 1:
		s.w.failf(startsInvariant, "request %s: the engine of %s begins for the second time", request, p.id)
	case s.running(request) != nil:
		s.w.failf(startsInvariant, "request %s: the engine of %s begins, and that of %s has not ended", request, p.id, s.running(request).id)
	case before > retries:
		s.w.failf(startsInvariant, "request %s: the engine of %s begins after %d others; it has %d retries", request, p.id, before, retries)
	case s.ready[request] != "":
		s.w.failf(startsInvariant, "request %s: the engine of %s begins, and that of %s was ready", request, p.id, s.ready[request])
	case s.answered[request].usable:
		s.w.failf(startsInvariant, "request %s: the engine of %s begins, and its caller was told of that of %s", request, p.id, s.answered[request].id)
	}
	if before > 0 {
		s.w.tally.Retried++
	}
	s.tries[request] = append(s.tries[request], p)
}

// running is an engine of a request that has begun and has not ended; nil: there is none.
func (s *starts) running(request string) *process {
	for _, p := range s.tries[request] {
		if p.started.on.processes[p.pid] == p {
			return p
		}
	}
	return nil
}

// record takes a transition that is durable.
func (s *starts) record(t *ledger.Allocation) {
	if t.Launch() == nil {
		return
	}
	if t.Phase() == ledger.Ready && t.RequestID != "" {
		s.ready[t.RequestID] = t.ID.String()
	}
	request := s.asked[t.RequestID]
	if launch := t.Launch(); request != nil && executedTries(launch) > int(request.command.Launch.Retries)+1 {
		s.w.failf(startsInvariant, "request %s has %d tries that were executed", t.RequestID, executedTries(launch))
	}
}

func executedTries(launch *ledger.Launch) (n int) {
	for i := range launch.Tries {
		if launch.Tries[i].Executed {
			n++
		}
	}
	return n
}

// checkEnd holds that each Start was answered, that nothing of a launch is left, and that nobody
// holds anything for one. That no process is left without a booking, checkHostEnd holds of all.
func (s *starts) checkEnd(l *ledger.Ledger) {
	for id := range s.asked {
		if _, answered := s.answered[id]; !answered {
			s.w.failf(startsInvariant, "%s was never answered", id)
		}
	}
	l.Allocations(0, func(a *ledger.Allocation) bool {
		if a.Launch() != nil {
			s.w.failf(startsInvariant, "%s of request %s is %s at the end", a.ID, a.RequestID, a.State)
		}
		return true
	})
	for _, m := range s.w.hosts {
		for _, p := range m.processes {
			if p.started != nil {
				s.w.failf(startsInvariant, "host %s: process %d of %s is there at the end", m.id, p.pid, p.id)
			}
		}
	}
	s.w.store.known.launches.checkEnd(s.w)
}

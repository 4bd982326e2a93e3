package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// crowd is what a world is about whose Config has Kinds. Thousands of requests wait, each of a kind
// of its own: a job is a label. They count with their user, with their tenant, and with a line of
// their tenant, and each of these quotas is full, as are the hosts. Engines end all the time, and
// small requests that come later take what becomes free. On some hosts an engine runs to the end of
// the world. A few large requests need nearly all of a host, of any host, or of a line; what they
// need drains, for everything else ends within longestLife. One host is drained, another one
// restarts, agents and coordinators are killed.
//
// crowd_checks.go has what must hold.
type crowd struct {
	w       *World
	link    *link
	jobs    map[string]*job // by request id
	large   []*job          // that must be granted within the bound
	quiet   time.Time       // when the faults are over that may make others wait
	started int             // engines
	crowdChecks
}

// job is one request of a crowd, and its engine.
type job struct {
	crowd   *crowd
	command ledger.AllocateCommand
	lives   time.Duration // of its engine; 0: to the end of the world
	asked   time.Time     // when it was first seen to wait
	granted bool
}

const (
	crowdTenants, crowdLines, crowdUsers = 4, 3, 40
	crowdHostMemory                      = 32 * gib
	longRunnerMemory                     = 4 * gib
	// longestLife is how long the engines run, but for those that run to the end, with the time
	// from the grant to the report of the end.
	longestLife = 18 * time.Second
	// crowdFaults is when the faults are over.
	crowdFaults = 80 * time.Second
)

func newCrowd(w *World) *crowd {
	for _, m := range w.hosts {
		// What others use of it is never in anybody's way.
		m.total, m.offer, m.cores, m.gpus = crowdHostMemory+4*gib, crowdHostMemory, 64000, 0
	}
	c := &crowd{w: w, link: w.newLink("crowd"), jobs: make(map[string]*job), quiet: start().Add(crowdFaults)}
	c.windows, c.latest, c.hadWindows = make(map[string]hold), make(map[ledger.ID]ledger.Instant), make(map[ledger.ID]int)
	return c
}

// rules are those of users, tenants, and lines of a tenant.
func (c *crowd) rules() map[string][]ledger.Quota {
	const file = "file:rules"
	quotas := []ledger.Quota{rule(file, "user=*", 28*gib), rule(file, "user=alice", 4*gib), rule(file, "tenant=*", 40*gib)}
	for i := range crowdLines { // a request without a line has no such quota
		quotas = append(quotas, rule(file, fmt.Sprintf("line=l%d,tenant=*", i), 16*gib))
	}
	return map[string][]ledger.Quota{file: quotas}
}

// newPlacer makes the placer of a ledger.
func (w *World) newPlacer() ledger.Placer {
	p := placement.New(placement.Spread)
	if w.crowd == nil {
		return p
	}
	return &countingPlacer{p, &w.crowd.looked}
}

// launch lets the crowd come: the runners first, then those who cannot be granted while they run,
// and then small ones all the time.
func (c *crowd) launch() {
	w := c.w
	for i, m := range w.hosts {
		if i%2 == 0 {
			c.at(8*time.Second, c.draw("runner", i, longRunnerMemory, m.id).counts("tenant", "long"), func(j *job) { j.lives = 0 })
		}
	}
	c.at(9*time.Second, c.draw("alice", 0, 4*gib, ""), func(j *job) { j.lives = 14 * time.Second })
	for i := range w.cfg.Kinds {
		host := ""
		if w.chance(8) {
			host = w.anyHost().id
		}
		memory := (1 + w.rng.Int64N(6)) * gib
		c.at(w.between(12*time.Second, 30*time.Second), c.draw(fmt.Sprintf("u%d", w.rng.IntN(crowdUsers)), i, memory, host), func(*job) {})
	}
	c.at(20*time.Second, c.draw("alice", 1, 4*gib, ""), func(*job) {})
	large := func(j *job) { c.large, j.command.Priority = append(c.large, j), 1 }
	c.at(w.between(30*time.Second, 60*time.Second), c.draw("large-on-host", 0, 26*gib, w.hosts[0].id).counts("tenant", "t0"), large)
	c.at(w.between(30*time.Second, 60*time.Second), c.draw("large-anywhere", 0, 26*gib, "").counts("tenant", "t1"), large)
	c.at(w.between(30*time.Second, 60*time.Second), c.draw("large-in-line", 0, 15*gib, "").counts("tenant", "t2", "line", "l0"), large)
	c.smalls(0)
	c.launchFaults()
}

// smalls makes small requests of new users come as long as the world is busy.
func (c *crowd) smalls(n int) {
	c.w.after(c.w.between(200*time.Millisecond, 400*time.Millisecond), "", func() {
		if c.w.calm {
			return
		}
		if n > 100 { // the hosts are full by then
			j := c.draw(fmt.Sprintf("n%d", n), n, gib, "")
			j.command.Wait = 20 * time.Second
			j.ask()
		}
		c.smalls(n + 1)
	})
}

// launchFaults makes things go wrong until crowdFaults.
func (c *crowd) launchFaults() {
	w := c.w
	at := func(least, most time.Duration, do func()) { w.after(w.between(least, most), "", do) }
	at(15*time.Second, 25*time.Second, func() { w.leaderOrAny().killAndRestart() })
	at(35*time.Second, 55*time.Second, func() { w.leaderOrAny().pause(12 * time.Second) })
	at(30*time.Second, 60*time.Second, func() { w.anyHost().agent.crashAndRestart() })
	at(35*time.Second, 60*time.Second, func() { w.hosts[1].reboot() })
	at(30*time.Second, 50*time.Second, func() {
		w.operate("drain", w.hosts[3].id, func(l *ledger.Ledger, now ledger.Instant) { _, _ = l.Drain(now, w.hosts[3].id, "test", nil) })
	})
	w.after(crowdFaults-5*time.Second, "", w.reopen)
}

// draw makes up a request.
func (c *crowd) draw(user string, number int, memory int64, host string) *job {
	w := c.w
	id := fmt.Sprintf("%s-%d", user, number)
	j := &job{crowd: c, lives: w.between(2*time.Second, 14*time.Second), command: ledger.AllocateCommand{
		Actor: identity.Actor{Name: "crowd", Anyone: true, Priority: true}, RequestID: id, RequestHash: 1, Async: true,
		Labels: label.Of("user", user, "tenant", fmt.Sprintf("t%d", w.rng.IntN(crowdTenants)),
			"line", fmt.Sprintf("l%d", w.rng.IntN(crowdLines)), "job", id),
		Resource: resource.NewResource(resource.Vector{}.WithMemory(memory).WithCPU(500)),
		Wait:     w.cfg.Busy + w.between(0, 10*time.Second),
	}}
	if host != "" {
		j.command.Wishes = &ledger.Wishes{Host: host}
	}
	return j
}

// counts is the job with these labels next to its user's, and no others.
func (j *job) counts(pairs ...string) *job {
	j.command.Labels = label.Of(append(pairs, "user", j.command.Labels.Value("user"))...)
	return j
}

// at asks for something at a time since the start. It waits to the end of the busy time.
func (c *crowd) at(at time.Duration, j *job, with func(*job)) {
	with(j)
	j.command.Wait -= at
	c.w.after(at, "", j.ask)
}

// ask asks under one id until the answer has come.
func (j *job) ask() {
	c := j.crowd
	c.jobs[j.command.RequestID] = j
	c.link.call(0, func(to *coord, reply func(answer)) func() { return to.allocate(j.command, reply) }, func(value any) {
		r, ok := value.(answerTo)
		switch {
		case !ok:
			c.w.after(c.w.between(50*time.Millisecond, time.Second), "", j.ask)
		case r.err != nil:
			c.w.failf(7, "%s is refused, and would wait: %v", j.command.RequestID, r.err)
		}
	})
}

// record is told of every transition that was committed, as those who watch are.
func (c *crowd) record(a *ledger.Allocation) {
	j := c.jobs[a.RequestID]
	if j == nil {
		return
	}
	switch {
	case a.State == ledger.Waiting && j.asked.IsZero():
		j.asked = c.w.now
	case a.State == ledger.Reserved:
		j.granted = true
		m, id, memory, ttl := c.w.machine(a.HostID), a.ID, a.Entitled.Memory(), a.ReservationTTL // a is valid only now
		c.w.after(c.w.between(0, time.Second), "", func() { j.start(m, id, memory, c.w.now.Add(ttl/2)) })
	}
}

// start starts the engine as soon as the host's agent has accepted the grant.
func (j *job) start(m *machine, id ledger.ID, memory int64, until time.Time) {
	w := j.crowd.w
	switch {
	case w.now.After(until):
	case !m.agent.holds(id.String()):
		w.after(200*time.Millisecond, "", func() { j.start(m, id, memory, until) })
	default:
		j.crowd.started++
		p := m.spawn(id.String(), memory)
		if j.lives > 0 {
			p.dies = w.now.Add(j.lives)
		}
		j.confirm(m, id, p, m.boots)
	}
}

// confirm repeats until it is answered. If that fails, the process ends.
func (j *job) confirm(m *machine, id ledger.ID, p *process, boots int) {
	w := j.crowd.w
	gone := func() bool { return m.boots != boots || m.processes[p.pid] != p }
	if gone() {
		return
	}
	m.agent.show(id.String(), p)
	command := ledger.ConfirmCommand{
		Actor: j.command.Actor, ID: id, HostID: m.id, Process: ledger.Process{PID: p.pid, StartTime: p.start, BootID: m.bootID},
	}
	m.agent.command(func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return l.Confirm(now, command)
	}, func(_ *bursarv1.Allocation, err error) {
		switch {
		case gone() || err == nil:
		case errors.Is(err, errUnavailable):
			w.after(200*time.Millisecond, "", func() { j.confirm(m, id, p, boots) })
		default:
			m.exit(p.pid, "is killed by its launcher")
		}
	})
}

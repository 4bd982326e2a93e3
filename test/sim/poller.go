package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// poller reads a cluster as long as its coordinator leads and has this record of it, as a real
// coordinator's poller does.
type poller struct {
	c        *coord
	record   ledger.ProviderRecord
	from     *yarn
	epoch    uint64
	pace     providers.Pace
	interval time.Duration
	// over says that the provider has changed; what the poller has asked for still arrives.
	over bool
}

// standing is the report that a ledger's decisions are based on, with what was true when it was
// made.
type standing struct {
	*snapshot
	// settled are the grants of engines without application ids that the report is assumed to show
	// in full.
	settled map[ledger.ID][]amount
}

// follow starts and ends pollers as the ledger's providers change, and forgets what was read of
// those that changed.
func (c *coord) follow() {
	if !c.core.Leading() {
		return
	}
	records := c.core.Ledger().Providers()
	same := func(a, b ledger.ProviderRecord) bool {
		return a.ClusterName == b.ClusterName && a.Default == b.Default && maps.Equal(a.Settings, b.Settings)
	}
	if slices.EqualFunc(records, c.records, same) {
		return
	}
	for _, before := range c.records {
		kept := func(r ledger.ProviderRecord) bool {
			return r.ClusterName == before.ClusterName && maps.Equal(r.Settings, before.Settings)
		}
		if !slices.ContainsFunc(records, kept) {
			delete(c.standing, before.ClusterName)
		}
	}
	for _, r := range records {
		kept := func(b ledger.ProviderRecord) bool {
			return r.ClusterName == b.ClusterName && maps.Equal(r.Settings, b.Settings)
		}
		if !slices.ContainsFunc(c.records, kept) {
			c.since[r.ClusterName] = c.ledgerTime()
		}
	}
	c.records = records
	c.pollers = slices.DeleteFunc(c.pollers, func(p *poller) bool {
		p.over = !slices.ContainsFunc(records, func(r ledger.ProviderRecord) bool { return same(r, p.record) })
		return p.over
	})
	for _, r := range records {
		if slices.ContainsFunc(c.pollers, func(p *poller) bool { return p.record.ClusterName == r.ClusterName }) {
			continue
		}
		pace, err := providers.PaceFrom(r.Settings)
		if err != nil {
			panic(err)
		}
		p := &poller{c: c, record: r, from: c.w.yarnOf(&r), epoch: c.core.Meta().Epoch, pace: pace, interval: pace.Interval}
		c.pollers = append(c.pollers, p)
		c.tellf("reads %s at %s", r.ClusterName, p.from.address)
		c.then(0, p.read)
	}
}

// forgetClusters ends all reading, with a leadership.
func (c *coord) forgetClusters() {
	for _, p := range c.pollers {
		p.over = true
	}
	c.pollers, c.rounds, c.records = nil, nil, nil
	c.standing, c.parts = make(map[ledger.ClusterName]*standing), make(map[ledger.ID][]resource.External)
	c.since, c.reported = make(map[ledger.ClusterName]ledger.Instant), make(map[ledger.ClusterName]bool)
}

// tell runs a command of the poller's, unless its leadership is over. A command for a provider
// that has changed does arrive: the ledger must notice by itself that it is about an earlier time.
func (p *poller) tell(do func(l *ledger.Ledger, now ledger.Instant)) bool {
	c := p.c
	if !c.core.Leading() || c.core.Meta().Epoch != p.epoch || c.stopping {
		c.w.tally.Superseded++
		return false
	}
	c.do(&core.Call{Do: core.OnLedger(do), Done: func(error) {}})
	c.audited = 0
	return true
}

// round is one reading.
type round struct {
	p     *poller
	ids   []string
	asked ledger.Instant
	begun time.Time
	got   *snapshot
	over  bool
}

// read begins a round.
func (p *poller) read() {
	r := &round{p: p}
	if p.over || !p.tell(func(l *ledger.Ledger, _ ledger.Instant) { r.ids = l.Applications(p.record.ClusterName) }) {
		return
	}
	c := p.c
	r.asked, r.begun = c.ledgerTime(), c.w.now
	c.then(p.pace.Timeout, func() {
		if r.got == nil {
			r.fail("no answer in time", false)
		} else {
			r.conclude()
		}
	})
	p.exchange(func() func() {
		switch y := p.from; {
		case y.passive:
			return func() { r.fail("no active server", true) }
		default:
			got := y.takeSnapshot()
			return func() {
				if !r.over {
					r.got = got
					c.rounds = append(c.rounds, r)
					r.askNext(0)
				}
			}
		}
	}, func() { r.fail("no server answers", false) })
}

// exchange asks the cluster for something and takes the answer. If the cluster does not answer,
// refused runs, or nothing.
func (p *poller) exchange(ask func() (then func()), refused func()) {
	c, w, y := p.c, p.c.w, p.from
	incarnation := c.incarnation
	latency := func() time.Duration {
		if y.slow && w.chance(2) {
			return w.between(0, 2*time.Second)
		}
		return w.between(200*time.Microsecond, 20*time.Millisecond)
	}
	w.after(latency(), "", func() {
		if y.away {
			if w.chance(2) {
				w.after(latency(), "", func() { c.wake(incarnation, refused) })
			}
			return
		}
		then := ask()
		w.after(latency(), "", func() { c.wake(incarnation, then) })
	})
}

// askNext asks for the applications, one after the other.
func (r *round) askNext(i int) {
	switch {
	case r.over:
	case i == len(r.ids):
		r.conclude()
	default:
		p := r.p
		p.exchange(func() func() {
			if p.from.passive {
				return r.conclude
			}
			a := p.from.answer(r.ids[i])
			return func() {
				if !r.over {
					r.got.report.Applications = append(r.got.report.Applications, a)
					r.askNext(i + 1)
				}
			}
		}, r.conclude)
	}
}

// conclude gives the ledger what was read.
func (r *round) conclude() {
	if r.over {
		return
	}
	r.over = true
	p, c, w := r.p, r.p.c, r.p.c.w
	c.rounds = slices.DeleteFunc(c.rounds, func(other *round) bool { return other == r })
	p.stretch(w.now.Sub(r.begun))
	q := &r.got.report
	q.ClusterName, q.Asked, q.Settle = p.record.ClusterName, r.asked, p.pace.Settle
	q.GoodFor = max(p.pace.MaxAge, 3*p.interval)
	p.tell(func(l *ledger.Ledger, now ledger.Instant) {
		before := ownLives(l, q.ClusterName)
		if err := l.ReportCluster(now, *q); err != nil {
			c.tellf("report of %s: %v", q.ClusterName, err)
			return
		}
		c.takes(l, r.got)
		c.checkEnded(l, before)
		c.checkOthers(l, q.ClusterName)
	})
	p.again(p.interval)
}

// fail tells the ledger that the cluster could not be read.
func (r *round) fail(reason string, forget bool) {
	if r.over {
		return
	}
	r.over = true
	p, c := r.p, r.p.c
	p.tell(func(l *ledger.Ledger, now ledger.Instant) {
		l.ClusterSilent(now, p.record.ClusterName, reason, forget)
		c.w.tally.Silences++
		if forget {
			delete(c.standing, p.record.ClusterName)
		}
	})
	p.again(min(p.interval, c.w.between(500*time.Millisecond, 2*time.Second)))
}

func (p *poller) again(d time.Duration) {
	p.c.then(p.c.w.between(d*8/10, d*12/10), p.read)
}

// stretch is what the coordinator does with the interval after a reading that took so long.
func (p *poller) stretch(took time.Duration) {
	switch {
	case took > p.interval/4:
		p.interval *= 2
	case took <= p.interval/8:
		p.interval = max(p.pace.Interval, p.interval/2)
	}
}

// takes notes that the ledger got a report, unless the ledger has a reason to ignore it: it was
// asked for earlier, or before the settings changed.
func (c *coord) takes(l *ledger.Ledger, s *snapshot) {
	name := s.report.ClusterName
	if before := c.standing[name]; before != nil && s.report.Asked < before.report.Asked || s.report.Asked < c.since[name] {
		c.w.tally.Outdated++
		return
	}
	c.w.tally.Reports++
	c.reported[name] = true
	taken := &standing{snapshot: s, settled: make(map[ledger.ID][]amount)}
	l.Allocations(0, func(a *ledger.Allocation) bool {
		if a.State == ledger.Active && len(a.ApplicationIDs) == 0 && s.report.Asked >= a.Confirmed.Add(s.report.Settle) {
			taken.settled[a.ID] = amountsOf(a)
		}
		return true
	})
	c.standing[name] = taken
}

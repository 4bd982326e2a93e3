package ledger_test

import (
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

var hostLabels = []label.Set{nil, label.Of("zone", "a"), label.Of("zone", "b")}

// prepare makes a world in which something can happen: hosts that report, and some rules.
func (m *machine) prepare(t *rapid.T) {
	m.advanceTo(t, start)
	m.abroad = rapid.IntRange(0, 2).Draw(t, "abroad") == 0
	for _, id := range hostIDs[:rapid.IntRange(1, 3).Draw(t, "hosts")] {
		m.registerAs(t, ledger.RegisterCommand{
			HostID: id, Incarnation: 1, BootID: "1", Capacity: capacity(t), Protected: protected(t),
			Labels: rapid.SampledFrom(hostLabels).Draw(t, "labels"),
		})
		available := rapid.Int64Range(4, 16).Draw(t, "available")
		m.agents[id].sample = &ledger.Sample{MemoryAvailable: &available}
		m.report(t, id, ledger.SyncCommand{Full: true, Sample: m.agents[id].sample}, false)
	}
	if m.abroad {
		m.changeProvider(t, ledger.ProviderRecord{ClusterName: clusterNames[0], Default: true})
		m.readClusters(t)
		return
	}
	for range rapid.IntRange(0, 3).Draw(t, "quotas") {
		m.putQuota(t)
	}
	for range rapid.IntRange(0, 2).Draw(t, "providers") {
		m.putProvider(t)
	}
	m.readClusters(t)
}

func capacity(t *rapid.T) resource.Vector {
	v := resource.Vector{}.WithMemory(rapid.Int64Range(4, 12).Draw(t, "memory"))
	v = quantity(t, v, resource.CPU, 8, 1)
	v = quantity(t, v, resource.Instances, 6, 7)
	return quantity(t, v, "gpu", 2, 6)
}

func protected(t *rapid.T) resource.Vector {
	return quantity(t, resource.Vector{}, resource.Memory, 2, 7)
}

func (m *machine) register(t *rapid.T) {
	id := rapid.SampledFrom(hostIDs).Draw(t, "host")
	c := ledger.RegisterCommand{HostID: id, Incarnation: 1, BootID: "1"}
	g := m.agents[id]
	if g != nil {
		c.Incarnation, c.BootID = g.incarnation, g.boot
	}
	if h := m.model.hosts[id]; h != nil {
		c.Capacity, c.Protected, c.Labels = h.capacity, h.protected, h.labels
	} else {
		c.Capacity, c.Protected = capacity(t), protected(t)
	}
	switch rapid.IntRange(0, 5).Draw(t, "what") {
	case 0: // the agent started again
		c.Incarnation++
		if g != nil && rapid.Bool().Draw(t, "without its state") {
			g.seen = 0
			clear(g.view)
		}
	case 1: // the machine did
		c.Incarnation, c.BootID = c.Incarnation+1, c.BootID+"1"
		if g != nil {
			clear(g.engines)
			clear(g.ended)
		}
	case 2:
		c.Capacity, c.Protected = capacity(t), protected(t)
	case 3:
		c.Labels = rapid.SampledFrom(hostLabels).Draw(t, "labels")
	case 4:
		c.Incarnation -= uint64(rapid.IntRange(0, 1).Draw(t, "older"))
	default:
	}
	if rapid.IntRange(0, 20).Draw(t, "out of range") == 0 {
		c.Capacity = c.Capacity.WithCPU(-1)
	}
	m.registerAs(t, c)
}

func (m *machine) registerAs(t *rapid.T, c ledger.RegisterCommand) {
	h := m.model.hosts[c.HostID]
	wantError := ""
	switch {
	case c.Capacity.Validate() != nil:
		wantError = "field"
	case h != nil && c.Incarnation < h.incarnation:
		wantError = "stale"
	default:
		if h == nil {
			if h = m.model.expected[c.HostID]; h == nil {
				h = &modelHost{id: c.HostID}
			}
			delete(m.model.expected, c.HostID)
			m.model.hosts[c.HostID] = h
		}
		if c.Incarnation > h.incarnation {
			h.sequence = 0
		}
		if m.model.silent(h) {
			h.measured = false
		}
		h.labels, h.capacity, h.protected, h.incarnation, h.boot = c.Labels, c.Capacity, c.Protected, c.Incarnation, c.BootID
		h.heard, h.lost, h.needFull, h.lastSync = true, false, true, m.model.now
	}
	var err error
	m.do(t, nothing, func(l *ledger.Ledger) { _, err = l.Register(m.model.now, c) })
	wantKind(t, wantError, err)
	if err != nil {
		return
	}
	g := m.agents[c.HostID]
	if g == nil {
		g = newModelAgent()
		m.agents[c.HostID] = g
	}
	if c.Incarnation > g.incarnation {
		g.sequence = 0
	}
	g.incarnation, g.boot = c.Incarnation, c.BootID
}

func (m *machine) deregister(t *rapid.T) {
	id := rapid.SampledFrom(hostIDs).Draw(t, "host")
	force := rapid.Bool().Draw(t, "force")
	h := m.model.hosts[id]
	want, wantError := expected{}, ""
	busy := false
	for _, r := range m.model.rows {
		switch {
		case r.HostID != id:
		case r.State == ledger.Waiting:
			want[r.ID] = []ledger.State{ledger.Canceled}
		default:
			want[r.ID] = []ledger.State{ledger.Lost}
			busy = true
		}
	}
	switch {
	case m.model.expected[id] != nil:
		delete(m.model.expected, id)
		want = expected{}
	case h == nil:
		wantError = "not found"
	case busy && !force:
		wantError = "state"
	default:
		delete(m.model.hosts, id)
	}
	if wantError != "" {
		want = expected{}
	}
	var err error
	m.do(t, func() expected { return want }, func(l *ledger.Ledger) { err = l.Deregister(m.model.now, id, force) })
	wantKind(t, wantError, err)
}

func (m *machine) cordon(t *rapid.T) {
	id := rapid.SampledFrom(hostIDs).Draw(t, "host")
	what := rapid.SampledFrom([]string{"cordon", "drain", "uncordon", "uncordon"}).Draw(t, "what")
	wantError := "not found"
	want := make(expected)
	var deadline *time.Duration
	if rapid.Bool().Draw(t, "with a deadline") {
		deadline = new(rapid.SampledFrom([]time.Duration{0, 3 * time.Second, 12 * time.Second, time.Minute}).Draw(t, "deadline"))
	}
	h := m.model.hosts[id]
	if h == nil {
		h = m.model.expected[id]
	}
	if h == nil && what != "uncordon" {
		h = &modelHost{id: id}
		m.model.expected[id] = h
	}
	if h != nil {
		h.cordoned, h.draining, h.stopAt = what != "uncordon", what == "drain", 0
		if what == "uncordon" {
			delete(m.model.expected, id)
		}
		if h.draining && deadline != nil {
			h.stopAt = m.model.now.Add(*deadline)
		}
		m.stopDrained(h, m.standingOf(h), want)
		wantError = ""
	}
	var err error
	m.do(t, func() expected { return want }, func(l *ledger.Ledger) {
		switch what {
		case "cordon":
			_, err = l.Cordon(m.model.now, id, "")
		case "drain":
			_, err = l.Drain(m.model.now, id, "", deadline)
		default:
			_, err = l.Uncordon(m.model.now, id)
		}
	})
	wantKind(t, wantError, err)
}

func (m *machine) advance(t *rapid.T) {
	m.advanceTo(t, m.model.now.Add(rapid.SampledFrom([]time.Duration{
		time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 9 * time.Second, 10 * time.Second, 15 * time.Second,
		31 * time.Second, 2 * time.Minute, 6 * time.Minute, 25 * time.Hour,
	}).Draw(t, "by")))
}

func (m *machine) advanceToTimer(t *rapid.T) {
	if at, set := m.ledger.NextTimer(); set {
		m.advanceTo(t, at)
	}
}

// stopDrained says what happens to the allocations of a draining host after its deadline.
func (m *machine) stopDrained(h *modelHost, held standing, want expected) {
	if h.stopAt == 0 || h.stopAt > m.model.now {
		return
	}
	for id, s := range held {
		if !s.stopping {
			want[id] = append(want[id], s.halted(h))
		}
	}
}

// halted is the state after something is stopped.
func (s *held) halted(h *modelHost) ledger.State {
	switch {
	case s.state == ledger.Reserved && !h.needFull:
		return ledger.Canceled
	case s.state == ledger.Active && !s.tracked:
		return ledger.Released
	default: // its agent is asked
		return s.state
	}
}

// advanceTo lets time pass. What is due by then happens, and nothing else.
func (m *machine) advanceTo(t *rapid.T, now ledger.Instant) {
	before := m.model.now
	m.model.now = now
	stopped := make(map[ledger.ID]*held)
	for _, h := range m.model.hosts {
		h.lost = h.lost || h.lastSync.Add(lostAfter) <= now
	}
	due := make(map[ledger.ID][]ledger.State) // one of these
	for id, r := range m.model.rows {
		add := func(s ledger.State, is bool) {
			if is {
				due[id] = append(due[id], s)
			}
		}
		waits := r.State == ledger.Waiting
		add(ledger.Expired, waits && r.WaitDeadline <= now)
		add(ledger.Canceled, waits && !r.present() && r.detached.Add(callerGrace) <= now)
		add(ledger.Expired, !waits && r.Expires != 0 && r.Expires <= now)
		add(ledger.Lost, !waits && m.model.hosts[r.HostID].lost && !m.model.livesElsewhere(r))
		if h := m.model.hosts[r.HostID]; !waits && before < h.stopAt && h.stopAt <= now && !r.Stopping {
			s := m.standingOf(h)[id]
			stopped[id] = s
			add(s.halted(h), s.halted(h) != s.state)
		}
	}
	m.forgets = true
	defer func() { m.forgets = false }()
	m.do(t, func() expected {
		want := make(expected)
		for id, states := range due {
			want[id] = states[:1]
			for i, s := range states {
				if m.model.ended[id].State == s {
					want[id] = states[i : i+1]
				}
			}
		}
		for id, s := range stopped { // unless it ended before that
			if row := m.model.rows[id]; row != nil || m.model.ended[id].Stopping {
				want[id] = append([]ledger.State{s.state}, want[id]...)
				if row != nil && !row.Stopping {
					t.Fatalf("%s is still there, and its host should have been drained", id)
				}
			}
		}
		return want
	}, func(l *ledger.Ledger) { l.Advance(now) })
	if at, set := m.ledger.NextTimer(); set && at <= now {
		t.Fatalf("at %d a timer is due at %d, still", now, at)
	}
}

// restart makes new ledgers of what was stored: one loads it, the other had filed it ahead. They
// must show the same, and decide the same from then on.
func (m *machine) restart(t *rapid.T) {
	m.windows, m.shares = nil, nil
	var errs [2]error
	m.ledger, errs[0] = m.mirror.restore(m.model.now, modelConfig())
	m.twin, errs[1] = m.mirror.restoreFiled(m.model.now)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(shown(m.ledger), shown(m.twin)); diff != "" {
		t.Fatalf("(-loaded +filed):\n%s", diff)
	}
	for _, r := range m.model.rows {
		r.callers, r.detached, r.touched = 0, m.model.now, 0
		r.elsewhere = elsewhere{}
		if r.Expires != 0 {
			r.Expires = graced(r, m.mirror.rows[r.ID].Expires, m.model.now)
		}
	}
	for _, c := range m.model.clusters {
		c.forget()
		c.since = m.model.now
	}
	m.model.judged = 0
	for _, h := range m.model.hosts {
		h.heard, h.needFull, h.measured, h.lastSync, h.sequence, h.touched, h.sample = false, true, false, m.model.now, 0, 0, 0
		m.model.judged = m.model.now.Add(patience)
	}
	m.do(t, nothing, func(l *ledger.Ledger) { l.Advance(m.model.now) })
}

// graced is when a reservation or a lease ends that is loaded: a lease gets its length, a
// reservation an interval, and all loads together three of these at most after the end in the row.
func graced(r *modelRow, stored, now ledger.Instant) ledger.Instant {
	grace := interval
	switch {
	case r.State != ledger.Active:
	case r.Lease > 0:
		grace = max(grace, r.Lease)
	default:
		grace = ledger.DefaultLease
	}
	return max(stored, min(now.Add(grace), stored.Add(3*grace)))
}

// settleDown ends everything: invariant 7.
func (m *machine) settleDown(t *rapid.T) {
	m.advanceTo(t, m.model.now.Add(time.Hour))
	m.check(t)
	for _, r := range m.model.rows {
		if r.State == ledger.Waiting {
			t.Fatalf("invariant 7: %s waits for more than an hour", r.ID)
		}
	}
}

// livesElsewhere reports whether configured clusters say when an engine has ended.
func (m *model) livesElsewhere(r *modelRow) bool {
	if r.State != ledger.Active || r.Process.PID != 0 || r.Lease != 0 || len(r.ApplicationIDs) == 0 || len(r.Entitled.External) == 0 {
		return false
	}
	for _, part := range r.Entitled.External {
		if c := m.clusters[ledger.ClusterName{Kind: part.Kind, Cluster: part.Cluster}]; c == nil || !c.configured {
			return false
		}
	}
	return true
}

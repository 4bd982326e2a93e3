package ledger_test

import (
	"hash/fnv"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// modelAgent is an agent: the processes on its host, and the answers that it got.
type modelAgent struct {
	incarnation, sequence uint64
	boot                  string
	seen                  uint64
	// what holds something on its host, by the answers; with revisions
	view     map[ledger.ID]uint64
	engines  map[ledger.ID]*modelEngine
	ended    map[ledger.ID]bool // tombstones that are not acknowledged
	sample   *ledger.Sample     // the last one
	measured ledger.Instant     // when, by its own clock
}

// modelEngine is a process with the grant that its agent has started it for.
type modelEngine struct {
	grant             ledger.Allocation
	memory, unreclaim int64
	overUse           []ledger.OverUse
}

func newModelAgent() *modelAgent {
	available := int64(8)
	return &modelAgent{
		sample: &ledger.Sample{MemoryAvailable: &available},
		view:   make(map[ledger.ID]uint64), engines: make(map[ledger.ID]*modelEngine), ended: make(map[ledger.ID]bool),
	}
}

// startEngine starts the engine of a reservation. Its agent confirms it, at once or only by a
// later report.
func (m *machine) startEngine(t *rapid.T) {
	id := m.pick(t, ledger.Reserved)
	r := m.model.rows[id]
	if r == nil || r.State != ledger.Reserved {
		return
	}
	g := m.agents[r.HostID]
	e := &modelEngine{grant: r.Allocation}
	e.grant.Process = ledger.Process{PID: rapid.Int32Range(1, 99).Draw(t, "pid"), StartTime: 7, BootID: g.boot}
	if rapid.IntRange(0, 9).Draw(t, "a damaged record") == 0 {
		e.grant.Entitled.Vector = e.grant.Entitled.WithMemory(-1)
	}
	g.engines[id] = e
	if rapid.IntRange(0, 2).Draw(t, "confirmed") > 0 {
		e.grant.ApplicationIDs = m.applications(t)
		c := ledger.ConfirmCommand{Actor: localActor(), ID: id, HostID: r.HostID, Process: e.grant.Process, ApplicationIDs: e.grant.ApplicationIDs}
		m.confirmAs(t, c, false)
	}
}

// someEngine draws an engine that runs.
func (m *machine) someEngine(t *rapid.T) (*modelAgent, ledger.ID) {
	for _, id := range rapid.Permutation(hostIDs).Draw(t, "hosts") {
		if g := m.agents[id]; g != nil && len(g.engines) > 0 {
			return g, rapid.SampledFrom(slices.Sorted(maps.Keys(g.engines))).Draw(t, "engine")
		}
	}
	return nil, 0
}

// runEngine lets an engine use memory, as much as it was granted or more.
func (m *machine) runEngine(t *rapid.T) {
	if g, id := m.someEngine(t); g != nil {
		e := g.engines[id]
		e.memory = rapid.Int64Range(0, 8).Draw(t, "memory")
		e.unreclaim = rapid.Int64Range(0, e.memory).Draw(t, "unreclaimable")
		if rapid.Bool().Draw(t, "judged again") {
			e.overUse = m.overUse(t)
		}
	}
}

// endEngine ends a process. Its agent notices, unless it was away.
func (m *machine) endEngine(t *rapid.T) {
	if g, id := m.someEngine(t); g != nil {
		delete(g.engines, id)
		if rapid.IntRange(0, 3).Draw(t, "unnoticed") > 0 {
			g.ended[id] = true
		}
	}
}

func (m *machine) sync(t *rapid.T) { m.syncWith(t, ledger.SyncCommand{}) }

func (m *machine) syncInFull(t *rapid.T) { m.syncWith(t, ledger.SyncCommand{Full: true}) }

// syncWith is a report of a random host: a sample, usage, ends, vetoes.
func (m *machine) syncWith(t *rapid.T, c ledger.SyncCommand) {
	id := rapid.SampledFrom(hostIDs).Draw(t, "host")
	g := m.agents[id]
	if g == nil {
		g = newModelAgent()
	}
	switch rapid.IntRange(0, 5).Draw(t, "sample") {
	case 0:
	case 1:
		c.Sample = &ledger.Sample{Pressure: rapid.Bool().Draw(t, "pressure")} // memory unknown
	default:
		available := rapid.Int64Range(0, 16).Draw(t, "available")
		c.Sample = &ledger.Sample{
			MemoryAvailable: &available, MemorySafety: rapid.Int64Range(0, 1).Draw(t, "safety"),
			Pressure: rapid.IntRange(0, 9).Draw(t, "pressure") == 0,
		}
		if rapid.IntRange(0, 9).Draw(t, "refusal") == 0 {
			c.Sample.Refusal = "/data is full"
		}
	}
	for _, engine := range slices.Sorted(maps.Keys(g.engines)) {
		if c.Full || rapid.Bool().Draw(t, "changed") {
			c.Engines = append(c.Engines, g.engines[engine].report(c.Full))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(g.ended)) {
		c.Ended = append(c.Ended, ledger.EngineEnd{ID: id})
	}
	if rapid.IntRange(0, 9).Draw(t, "a stray end") == 0 {
		c.Ended = append(c.Ended, ledger.EngineEnd{ID: m.pick(t, ledger.Active)})
	}
	if rapid.IntRange(0, 2).Draw(t, "veto") == 0 {
		v := ledger.Veto{ID: m.pick(t, ledger.Reserved), Headroom: rapid.Int64Range(0, 8).Draw(t, "left")}
		if r := m.model.rows[v.ID]; r != nil {
			v.Revision = r.Revision - rapid.Uint64Range(0, 1).Draw(t, "older")
		}
		c.Vetoes = append(c.Vetoes, v)
	}
	if rapid.IntRange(0, 9).Draw(t, "another capacity") == 0 {
		v := capacity(t)
		c.Capacity = &v
	}
	if c.Sample != nil {
		c.Sample.Time = g.measured
		if rapid.IntRange(0, 3).Draw(t, "sent once more") > 0 {
			g.measured++
			c.Sample.Time = g.measured
		}
		g.sample = c.Sample
	}
	m.report(t, id, c, rapid.IntRange(0, 5).Draw(t, "the answer is lost") == 0)
}

// beat lets time pass, with the reports that agents send meanwhile.
func (m *machine) beat(t *rapid.T) {
	for range rapid.IntRange(1, 4).Draw(t, "intervals") {
		m.advanceTo(t, m.model.now.Add(interval))
		for _, id := range hostIDs {
			if g := m.agents[id]; g != nil {
				m.heartbeat(t, id, g)
			}
		}
	}
}

// heartbeat is a regular report: the last sample again. If the answer asks for it, the agent
// registers again.
func (m *machine) heartbeat(t *rapid.T, id string, g *modelAgent) {
	g.measured++
	sample := *g.sample
	sample.Time = g.measured
	g.sample = &sample
	if m.report(t, id, ledger.SyncCommand{Sample: g.sample}, false).Action != ledger.ActionResync {
		return
	}
	c := ledger.RegisterCommand{HostID: id, Incarnation: g.incarnation, BootID: g.boot, Capacity: resource.Vector{}.WithMemory(8).WithCPU(4)}
	if h := m.model.hosts[id]; h != nil {
		c.Capacity, c.Protected, c.Labels = h.capacity, h.protected, h.labels
		c.Incarnation, c.BootID = max(c.Incarnation, h.incarnation), h.boot
	}
	m.registerAs(t, c)
	full := ledger.SyncCommand{Full: true, Sample: g.sample}
	for _, engine := range slices.Sorted(maps.Keys(g.engines)) {
		full.Engines = append(full.Engines, g.engines[engine].report(true))
	}
	m.report(t, id, full, false)
}

// report describes the engine, with its agent's record if it is asked for.
func (e *modelEngine) report(full bool) ledger.EngineReport {
	r := ledger.EngineReport{ID: e.grant.ID, Measured: resource.Vector{}.WithMemory(e.memory), Unreclaimable: e.unreclaim, OverUse: e.overUse}
	if full {
		grant := e.grant
		r.Grant = &grant
	}
	return r
}

// nameOthers is a report of a host whose agent is not to be trusted: it names what others have,
// and what nobody has asked for, as far as it can know of it. It may know anything of what was
// granted to its host once.
func (m *machine) nameOthers(t *rapid.T) {
	id := rapid.SampledFrom(hostIDs).Draw(t, "host")
	g := m.agents[id]
	if g == nil {
		return
	}
	c := ledger.SyncCommand{Full: true}
	for _, engine := range slices.Sorted(maps.Keys(g.engines)) {
		c.Engines = append(c.Engines, g.engines[engine].report(true))
	}
	for range rapid.IntRange(1, 4).Draw(t, "others") {
		e := modelEngine{grant: ledger.Allocation{
			ID: ledger.ID(rapid.IntRange(1, 3).Draw(t, "made up")), Caller: actor(t).Name, RequestID: rapid.SampledFrom(requestIDs).Draw(t, "request"),
			Created: start, Labels: rapid.SampledFrom(labelSets).Draw(t, "labels"),
		}}
		e.grant.Requested = resource.NewResource(request(t).WithInstances(1))
		e.grant.Entitled = e.grant.Requested
		if r := m.model.rows[m.pick(t, ledger.Waiting, ledger.Reserved)]; r != nil {
			made := e.grant
			e.grant = r.Allocation
			switch rapid.IntRange(0, 5).Draw(t, "what it does not know") {
			case 0:
				e.grant.Created++
			case 1:
				e.grant.Caller = made.Caller
			case 2:
				e.grant.RequestID = made.RequestID
			case 3:
				e.grant.Labels = made.Labels
			case 4:
				e.grant.Requested = made.Requested
			default:
			}
		}
		e.grant.Process = ledger.Process{PID: 1, StartTime: 7, BootID: g.boot}
		c.Engines = append(c.Engines, e.report(true))
	}
	m.report(t, id, c, rapid.Bool().Draw(t, "the answer is lost"))
}

// syncOutOfOrder is a report that was overtaken, is from an earlier or a later incarnation, or has
// seen a revision that never was.
func (m *machine) syncOutOfOrder(t *rapid.T) {
	id := rapid.SampledFrom(hostIDs).Draw(t, "host")
	g := m.agents[id]
	if g == nil {
		return
	}
	before := *g
	switch rapid.IntRange(0, 4).Draw(t, "what") {
	case 0:
		g.sequence = max(1, g.sequence) - 1
	case 1:
		g.incarnation = max(1, g.incarnation) - 1
	case 2:
		g.incarnation++
	case 3:
		g.boot += "2"
	default:
		g.seen = rapid.SampledFrom([]uint64{0, g.seen / 2, m.ledger.Revision() + 5}).Draw(t, "seen")
	}
	c := ledger.SyncCommand{Full: rapid.Bool().Draw(t, "full")}
	if !c.Full {
		m.report(t, id, c, true)
	}
	sequence := g.sequence
	*g = before
	g.sequence = max(g.sequence, sequence)
}

// report sends what was drawn, with what every report of the agent has, and compares what comes of
// it.
func (m *machine) report(t *rapid.T, id string, c ledger.SyncCommand, lost bool) ledger.SyncResult {
	g := m.agents[id]
	if g == nil {
		g = newModelAgent()
	}
	g.sequence++
	c.HostID, c.Incarnation, c.Sequence, c.BootID, c.Seen = id, g.incarnation, g.sequence, g.boot, g.seen
	c.Digest = digest(slices.Collect(maps.Keys(g.engines)))
	p := m.predict(c)
	m.forgets = true
	defer func() { m.forgets = false }()
	var result ledger.SyncResult
	var err error
	m.do(t, func() expected { return p.want }, func(l *ledger.Ledger) { result, err = l.Sync(m.model.now, c) })
	wantKind(t, p.wantError, err)
	switch {
	case err != nil:
	case p.unheard:
		if result.Action != ledger.ActionResync || len(result.Acknowledged) > 0 {
			t.Fatalf("answer to a report that nothing was taken from: %+v", result)
		}
	default:
		m.checkAnswer(t, &c, &result)
		if !lost {
			g.hear(result)
			m.checkView(t, id, g, result)
		}
	}
	return result
}

// hear takes in an answer.
func (g *modelAgent) hear(r ledger.SyncResult) {
	g.seen = r.Revision
	if r.Complete {
		clear(g.view)
	}
	for i := range r.Grants {
		g.view[r.Grants[i].ID] = r.Grants[i].Revision
	}
	for _, id := range r.Gone {
		delete(g.view, id)
	}
	for _, id := range r.Acknowledged {
		delete(g.ended, id)
	}
}

// checkView: an agent that need not resync knows exactly what its host holds.
func (m *machine) checkView(t *rapid.T, host string, g *modelAgent, r ledger.SyncResult) {
	t.Helper()
	if r.Action == ledger.ActionResync && !r.Complete {
		return
	}
	want := make(map[ledger.ID]uint64)
	m.ledger.HostAllocations(host, func(a *ledger.Allocation) bool {
		want[a.ID] = a.Revision
		return true
	})
	if !maps.Equal(want, g.view) {
		t.Fatalf("the agent of %s knows of %v; there is %v", host, g.view, want)
	}
}

// checkAnswer compares an answer with the model.
func (m *machine) checkAnswer(t *rapid.T, c *ledger.SyncCommand, r *ledger.SyncResult) {
	t.Helper()
	h := m.model.hosts[c.HostID]
	var tracked []ledger.ID
	stops := make(map[ledger.ID]bool)
	for _, row := range m.model.rows {
		if row.HostID != h.id || !row.State.Holds() {
			continue
		}
		if row.tracked() {
			tracked = append(tracked, row.ID)
		}
		if row.Stopping {
			stops[row.ID] = true
		}
	}
	action := ledger.ActionNone
	switch {
	case h.needFull, !c.Full && h.touched <= c.Seen && c.Digest != digest(tracked):
		action = ledger.ActionResync
	case h.draining:
		action = ledger.ActionDrain
	}
	if r.Action != action || r.Revision != m.ledger.Revision() || r.Interval != interval {
		t.Fatalf("answer %+v; want action %d at revision %d", r, action, m.ledger.Revision())
	}
	if len(r.Acknowledged) != len(c.Ended) || len(r.Stops) != len(stops) {
		t.Fatalf("answer %+v; want %d ends acknowledged and %v stopped", r, len(c.Ended), stops)
	}
	for i := range r.Stops {
		if !stops[r.Stops[i].ID] {
			t.Fatalf("answer %+v; want only %v stopped", r, stops)
		}
	}
}

// digest is the sum of the FNV-1a hashes of the texts of ids.
func digest(ids []ledger.ID) uint64 {
	sum := uint64(0)
	for _, id := range ids {
		h := fnv.New64a()
		_, _ = h.Write([]byte(id.String()))
		sum += h.Sum64()
	}
	return sum
}

package ledger_test

import (
	"slices"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

func localActor() identity.Actor { return identity.Local() }

// prediction is what must come of a report.
type prediction struct {
	want      expected
	wantError string
	unheard   bool // nothing is applied: the agent must resync
}

// predict says what must come of a report, and updates the model's host. The allocations follow
// with the transitions.
func (m *machine) predict(c ledger.SyncCommand) prediction {
	p := prediction{want: make(expected)}
	h := m.model.hosts[c.HostID]
	switch {
	case h == nil || c.Incarnation > h.incarnation || c.Incarnation == h.incarnation && c.BootID != h.boot || h.lost:
		p.unheard = true
		return p
	case c.Incarnation < h.incarnation || c.Sequence <= h.sequence:
		p.wantError = "stale"
		return p
	}
	h.sequence, h.lastSync, h.heard = c.Sequence, m.model.now, true
	seen := c.Seen
	if seen > m.ledger.Revision() {
		seen, h.needFull = 0, true
	}
	fresh := c.Sample != nil && (c.Sample.Time == 0 || c.Sample.Time != h.sample)
	sampled := fresh && c.Sample.MemoryAvailable != nil
	after := m.standingOf(h)
	for _, end := range c.Ended {
		after.end(end.ID, ledger.Released, p.want)
	}
	for i := range c.Engines {
		if r := &c.Engines[i]; sampled && after[r.ID] != nil {
			after[r.ID].touched = r.Unreclaimable
			m.model.rows[r.ID].touched = r.Unreclaimable
		}
	}
	m.judge(c.Engines, after, p.want)
	if c.Full {
		m.reconcile(h, c.Engines, seen, sampled, after, p.want)
		h.needFull = false
	}
	for _, v := range c.Vetoes {
		s := after[v.ID]
		if s == nil || s.state != ledger.Reserved || v.Revision < m.model.rows[v.ID].GrantRevision {
			continue
		}
		state := ledger.Waiting
		if m.model.rows[v.ID].WaitDeadline <= m.model.now || m.model.rows[v.ID].Stopping {
			state = ledger.Canceled
		}
		after.end(v.ID, state, p.want)
		h.live = min(h.live, v.Headroom+after.promised())
	}
	if c.Capacity != nil {
		h.capacity = *c.Capacity
	}
	if fresh {
		h.sample, h.sampleAt, h.measured, h.pressure = c.Sample.Time, m.model.now, sampled, c.Sample.Pressure
		h.refused = c.Sample.Refusal != ""
	}
	if sampled {
		h.live = *c.Sample.MemoryAvailable - c.Sample.MemorySafety
	}
	m.stopDrained(h, after, p.want)
	return p
}

// judge says which engines are seen to go beyond what they are entitled to, or not any more.
func (m *machine) judge(engines []ledger.EngineReport, after standing, want expected) {
	for i := range engines {
		r := &engines[i]
		if s := after[r.ID]; s != nil && s.state == ledger.Active {
			next, news := m.model.rows[r.ID].overUse.heard(r.OverUse)
			if m.model.rows[r.ID].overUse = next; news {
				want[r.ID] = append(want[r.ID], ledger.Active)
			}
		}
	}
}

// standing is what a host holds in the course of a report.
type standing map[ledger.ID]*held

type held struct {
	state    ledger.State
	tracked  bool
	revision uint64
	memory   int64
	touched  int64
	stopping bool
}

// standingOf is what a host holds now.
func (m *machine) standingOf(h *modelHost) standing {
	s := make(standing)
	for id, r := range m.model.rows {
		if r.State.Holds() && r.HostID == h.id {
			s[id] = &held{r.State, r.tracked(), r.Revision, r.Entitled.Memory(), r.touched, r.Stopping}
		}
	}
	return s
}

func (s standing) end(id ledger.ID, state ledger.State, want expected) {
	if s[id] != nil {
		want[id] = append(want[id], state)
		delete(s, id)
	}
}

func (s standing) promised() int64 {
	sum := int64(0)
	for _, e := range s {
		sum += max(0, e.memory-e.touched)
	}
	return sum
}

// reconcile says what a full report changes: what runs is adopted, what does not run is released.
func (m *machine) reconcile(h *modelHost, engines []ledger.EngineReport, seen uint64, sampled bool, after standing, want expected) {
	var running []ledger.ID
	for i := range engines {
		r := &engines[i]
		running = append(running, r.ID)
		s := after[r.ID]
		row := m.model.rows[r.ID]
		entitled := described(r)
		switch {
		case s != nil && s.state == ledger.Active:
			continue
		case s != nil: // its confirmation is on its way
			if r.Grant.Entitled.Validate() != nil || !r.Grant.Entitled.NotMoreThan(row.Entitled) {
				entitled = row.Entitled
			}
			for dimension, quantity := range row.Entitled.All() {
				if !entitled.Has(dimension) {
					entitled.Vector = entitled.With(dimension, quantity)
				}
			}
			row.overUse, _ = overUse(nil).heard(r.OverUse)
			want[r.ID] = append(want[r.ID], ledger.Active)
			after[r.ID] = &held{ledger.Active, true, m.ledger.Revision() + 1, entitled.Memory(), s.touched, s.stopping}
		case row != nil && len(want[r.ID]) == 0 && !row.mayHaveGoneTo(h, r.Grant):
			// another's, or nobody's
		case row != nil && len(want[r.ID]) == 0:
			want[r.ID] = append(want[r.ID], ledger.Lost, ledger.Active)
			after[r.ID] = m.adopted(h, r, entitled, sampled, false)
		default:
			want[r.ID] = append(want[r.ID], ledger.Active)
			after[r.ID] = m.adopted(h, r, entitled, sampled, !m.remembers(r))
		}
	}
	for id, s := range after {
		if s.tracked && s.revision <= seen && !slices.Contains(running, id) {
			after.end(id, ledger.Released, want)
		}
		if s.state == ledger.Reserved && m.model.rows[id].Stopping {
			after.end(id, ledger.Canceled, want)
		}
	}
}

// described is the entitlement of an agent's record, or, if that is impossible, what the engine
// uses.
func described(r *ledger.EngineReport) resource.Resource {
	if r.Grant.Entitled.Validate() != nil {
		return resource.NewResource(r.Measured)
	}
	return r.Grant.Entitled
}

// mayHaveGoneTo reports whether a record of a host's agent can be of the row, which is not on that
// host.
func (r *modelRow) mayHaveGoneTo(h *modelHost, record *ledger.Allocation) bool {
	wanted := ""
	if r.Wishes != nil {
		wanted = r.Wishes.Host
	}
	same := r.Created == record.Created && r.Caller == record.Caller && r.RequestID == record.RequestID &&
		r.Labels.Equal(record.Labels) && r.Requested.Equal(record.Requested)
	return same && r.State != ledger.Active && (wanted == "" || wanted == h.id)
}

// remembers reports whether the ledger knows the request that a record is of.
func (m *machine) remembers(r *ledger.EngineReport) bool {
	id, _, known := m.model.request(r.Grant.Caller, r.Grant.RequestID)
	row := m.model.rows[r.ID]
	return r.Grant.RequestID != "" && known && id == r.ID && (row == nil || !row.brought)
}

func (m *machine) adopted(h *modelHost, r *ledger.EngineReport, entitled resource.Resource, sampled, brought bool) *held {
	s := &held{ledger.Active, true, m.ledger.Revision() + 1, entitled.Memory(), 0, r.Grant.Stopping}
	if sampled {
		s.touched = r.Unreclaimable
	}
	known, _ := overUse(nil).heard(r.OverUse)
	m.adopting[r.ID] = adoption{touched: s.touched, entitled: entitled, host: hostAccount(h), overUse: known, brought: brought}
	return s
}

// adoption is what identifies an adopted engine.
type adoption struct {
	touched  int64
	entitled resource.Resource
	host     modelAccount // as it was then
	overUse  overUse
	brought  bool
}

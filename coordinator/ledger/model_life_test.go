package ledger_test

import (
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// pick draws an allocation in one of some states; if there is none, any, an ended one, or one that
// never existed.
func (m *machine) pick(t *rapid.T, states ...ledger.State) ledger.ID {
	var wanted, all []ledger.ID
	for _, id := range slices.Sorted(maps.Keys(m.model.rows)) {
		if slices.Contains(states, m.model.rows[id].State) {
			wanted = append(wanted, id)
		}
		all = append(all, id)
	}
	if len(wanted) > 0 && rapid.IntRange(0, 9).Draw(t, "as wanted") > 0 {
		return rapid.SampledFrom(wanted).Draw(t, "id")
	}
	all = append(append(all, 12345), slices.Sorted(maps.Keys(m.model.ended))...)
	return rapid.SampledFrom(all).Draw(t, "id")
}

// may is whether an actor may change an allocation.
func may(r *modelRow, a identity.Actor) bool {
	return r.Caller == a.Name || a.MayActAs(r.Labels.Value("user"))
}

func (m *machine) detach(t *rapid.T) {
	id := m.pick(t, ledger.Waiting)
	if r := m.model.rows[id]; r != nil && r.State == ledger.Waiting && r.callers > 0 {
		r.callers--
		if !r.present() {
			r.detached = m.model.now
		}
	}
	m.do(t, nothing, func(l *ledger.Ledger) { l.Detach(m.model.now, id) })
}

func (m *machine) release(t *rapid.T) {
	c := ledger.ReleaseCommand{Actor: actor(t), ID: m.pick(t, ledger.Reserved, ledger.Active)}
	if rapid.IntRange(0, 4).Draw(t, "through an agent") == 0 {
		c.HostID = rapid.SampledFrom(hostIDs).Draw(t, "host")
	}
	c.ProcessEnded, c.Force = rapid.Bool().Draw(t, "ended"), rapid.IntRange(0, 4).Draw(t, "force") == 0
	r := m.model.rows[c.ID]
	want, wantError := only(c.ID, ledger.Released), ""
	lives := r != nil && !c.Force && (!c.ProcessEnded || c.HostID == "") && r.tracked()
	switch {
	case r == nil:
		wantError = "not found"
	case !may(r, c.Actor):
		wantError = "denied"
	case c.HostID != "" && r.State.Holds() && r.HostID != c.HostID:
		wantError = "state"
	case c.Force && c.Actor.Role != identity.Admin:
		wantError = "denied"
	case lives && r.Releasing:
		want = nothing
	case lives:
		want = only(c.ID, r.State)
	}
	if wantError != "" {
		want = nothing
	}
	var err error
	m.do(t, want, func(l *ledger.Ledger) { _, err = l.Release(m.model.now, c) })
	wantKind(t, wantError, err)
	if err != nil { // invariant 5: twice has the effect of once
		return
	}
	m.do(t, nothing, func(l *ledger.Ledger) { _, err = l.Release(m.model.now, c) })
	if lives {
		wantKind(t, "", err)
		return
	}
	wantKind(t, "not found", err)
}

func (m *machine) cancel(t *rapid.T) {
	c := ledger.CancelCommand{Actor: actor(t)}
	if rapid.Bool().Draw(t, "by request id") {
		c.RequestID = rapid.SampledFrom(requestIDs).Draw(t, "request")
	} else {
		c.ID = m.pick(t, ledger.Waiting, ledger.Reserved)
	}
	id := c.ID
	if id == 0 {
		if found, live, _ := m.model.request(c.Actor.Name, c.RequestID); live {
			id = found
		}
	}
	r := m.model.rows[id]
	want, wantError := only(id, ledger.Canceled), ""
	switch {
	case r == nil:
		wantError = "not found"
	case !may(r, c.Actor):
		wantError = "denied"
	case r.State == ledger.Active:
		wantError = "state"
	}
	if wantError != "" {
		want = nothing
	}
	var err error
	m.do(t, want, func(l *ledger.Ledger) { _, err = l.Cancel(m.model.now, c) })
	wantKind(t, wantError, err)
}

func (m *machine) renew(t *rapid.T) {
	c := ledger.RenewCommand{Actor: actor(t), ID: m.pick(t, ledger.Reserved, ledger.Active), TTL: time.Duration(rapid.IntRange(0, 1).Draw(t, "ttl")) * time.Minute}
	r := m.model.rows[c.ID]
	want, wantError := nothing, ""
	var given time.Duration
	switch {
	case r == nil:
		wantError = "not found"
	case !may(r, c.Actor):
		wantError = "denied"
	case r.State == ledger.Reserved:
		given = r.ReservationTTL
	case r.State == ledger.Active && r.Lease > 0:
		given = r.Lease
	case isUnbounded(r):
		given = ledger.DefaultLease
	default:
		wantError = "state"
	}
	if wantError == "" {
		want = only(c.ID, r.State)
	}
	if c.TTL > 0 {
		given = c.TTL
	}
	var err error
	m.do(t, want, func(l *ledger.Ledger) { _, err = l.Renew(m.model.now, c) })
	wantKind(t, wantError, err)
	if err == nil && m.model.rows[c.ID].Expires != m.model.now.Add(given) {
		t.Fatalf("%s is renewed until %d; want %s from now", c.ID, m.model.rows[c.ID].Expires, given)
	}
}

func (m *machine) resize(t *rapid.T) {
	c := ledger.ResizeCommand{Actor: actor(t), ID: m.pick(t, ledger.Reserved, ledger.Active), Entitled: resource.NewResource(request(t))}
	r := m.model.rows[c.ID]
	c.Entitled.External = m.someParts(t, r)
	want, wantError := nothing, ""
	var next resource.Resource
	switch {
	case r == nil:
		wantError = "not found"
	case !may(r, c.Actor):
		wantError = "denied"
	case !r.State.Holds():
		wantError = "state"
	default:
		var named bool
		next, named = overlaid(r.Entitled, c.Entitled)
		growth := ledger.Allocation{Labels: r.Labels, Wishes: &ledger.Wishes{Host: r.HostID}}
		growth.Entitled = grown(r.Entitled, resource.NewResource(next.Vector))
		grows, short := !growth.Entitled.IsZero(), false
		accounts := slices.DeleteFunc(m.model.quotas(r.Labels), func(a modelAccount) bool { return a.place == nil })
		for _, a := range append(accounts, m.model.chainsOf(r.Labels, next)...) {
			if more := m.model.more(a, r, next); !more.IsZero() {
				grows = true
				shut := a.queue != nil && m.model.shut(a.queue)
				short = short || shut || m.model.lacks(a, more) || m.model.keptFrom(m.holds(), a, more, r.ID)
			}
		}
		switch {
		case !named || endsInstances(r, c.Entitled),
			r.tracked() && c.Actor.Role != identity.Admin && !withCountablesOf(next, r.Entitled).NotMoreThan(next):
			wantError = "field"
		case grows && (short || len(m.model.fits(&growth, m.holds())) == 0):
			wantError = "insufficient"
		}
	}
	if wantError == "" {
		want = only(c.ID, r.State)
		for _, queue := range m.model.chainsOf(r.Labels, next) {
			if !queue.asked(next).NotMoreThan(queue.asked(r.Entitled)) {
				r.changed = m.model.now
			}
		}
	}
	var err error
	m.do(t, want, func(l *ledger.Ledger) { _, err = l.Resize(m.model.now, c) })
	wantKind(t, wantError, err)
	if err == nil && !m.model.rows[c.ID].Entitled.Equal(next) {
		t.Fatalf("%s is entitled to %s; want %s", c.ID, m.model.rows[c.ID].Entitled, next)
	}
}

// endsInstances reports whether an engine of some instances is said to be one of none.
func endsInstances(r *modelRow, said resource.Resource) bool {
	return said.Has(resource.Instances) && said.Instances() == 0 && r.Entitled.Instances() > 0
}

func (m *machine) stop(t *rapid.T) {
	c := ledger.StopCommand{Actor: actor(t), ID: m.pick(t, ledger.Active, ledger.Active, ledger.Reserved)}
	r := m.model.rows[c.ID]
	want, wantError := nothing, ""
	switch {
	case r == nil:
		wantError = "not found"
	case !may(r, c.Actor):
		wantError = "denied"
	case r.State == ledger.Reserved && m.model.hosts[r.HostID].needFull:
		want = only(c.ID, ledger.Reserved) // its agent may have more to say
	case r.State != ledger.Active:
		want = only(c.ID, ledger.Canceled)
	case !r.tracked():
		want = only(c.ID, ledger.Released)
	default:
		want = only(c.ID, ledger.Active)
	}
	var err error
	m.do(t, want, func(l *ledger.Ledger) { _, err = l.Stop(m.model.now, c) })
	wantKind(t, wantError, err)
}

// isUnbounded reports whether nothing ends an engine but the default lease.
func isUnbounded(r *modelRow) bool {
	return r.State == ledger.Active && r.Lease == 0 && r.Process.PID == 0 && (len(r.ApplicationIDs) == 0 || len(r.Entitled.External) == 0)
}

func (m *machine) confirm(t *rapid.T) {
	c := ledger.ConfirmCommand{Actor: actor(t), ID: m.pick(t, ledger.Reserved, ledger.Reserved, ledger.Active), ApplicationIDs: m.applications(t)}
	if rapid.Bool().Draw(t, "with a process") {
		c.Process = ledger.Process{PID: rapid.Int32Range(1, 3).Draw(t, "pid"), StartTime: 7}
	}
	if rapid.IntRange(0, 3).Draw(t, "lease") == 0 {
		c.Lease = time.Minute
	}
	m.confirmAs(t, c, rapid.Bool().Draw(t, "with a resource"))
}

// confirmAs confirms, and compares the outcome.
func (m *machine) confirmAs(t *rapid.T, c ledger.ConfirmCommand, entitle bool) {
	r := m.model.rows[c.ID]
	if entitle {
		said := resource.NewResource(request(t))
		if r != nil && rapid.Bool().Draw(t, "no more than reserved") {
			for dimension, quantity := range said.All() {
				reserved, _ := r.Entitled.Get(dimension)
				said.Vector = said.With(dimension, min(quantity, reserved))
			}
		}
		said.External = m.someParts(t, r)
		c.Entitled = &said
	}
	want, wantError := nothing, ""
	var next resource.Resource
	var names []string
	switch {
	case r == nil:
		wantError = "not found"
	case !may(r, c.Actor):
		wantError = "denied"
	case c.HostID != "" && r.State.Holds() && c.HostID != r.HostID:
		wantError = "state"
	case r.State == ledger.Active && r.Process.PID == c.Process.PID && (c.Process.StartTime == 0 || r.Process.StartTime == c.Process.StartTime):
		next = r.Entitled // it is confirmed already
		if names = together(r.ApplicationIDs, c.ApplicationIDs); len(names) > len(r.ApplicationIDs) {
			want = only(c.ID, ledger.Active)
			r.elsewhere = elsewhere{granted: r.granted, changed: m.model.now}
		}
	case r.State != ledger.Reserved, m.isEngineOfAnother(r, c.Process):
		wantError = "state"
	default:
		next, names = r.Entitled, together(nil, c.ApplicationIDs)
		if c.Entitled != nil {
			var named bool
			if next, named = overlaid(r.Entitled, *c.Entitled); !named || !next.NotMoreThan(r.Entitled) || endsInstances(r, *c.Entitled) {
				wantError = "field"
			}
		}
		if c.Lease > 0 && c.Process.PID != 0 {
			wantError = "field"
		}
		if c.Process.PID != 0 {
			next = withCountablesOf(next, r.Entitled)
		}
		if wantError == "" {
			want = only(c.ID, ledger.Active)
		}
	}
	var err error
	m.do(t, want, func(l *ledger.Ledger) { _, err = l.Confirm(m.model.now, c) })
	wantKind(t, wantError, err)
	if err == nil && (!m.model.rows[c.ID].Entitled.Equal(next) || !slices.Equal(m.model.rows[c.ID].ApplicationIDs, names)) {
		t.Fatalf("%s is confirmed with %s, %v; want %s, %v", c.ID, m.model.rows[c.ID].Entitled, m.model.rows[c.ID].ApplicationIDs, next, names)
	}
	if err == nil && isUnbounded(m.model.rows[c.ID]) != (m.model.rows[c.ID].Lease == 0 && m.model.rows[c.ID].Expires != 0) {
		t.Fatalf("%s is confirmed until %d, with process %d, lease %s and %v", c.ID, m.model.rows[c.ID].Expires, c.Process.PID, c.Lease, names)
	}
}

// isEngineOfAnother reports whether a process of the allocation's host may be the engine of another
// allocation.
func (m *machine) isEngineOfAnother(r *modelRow, p ledger.Process) bool {
	same := func(a, b ledger.Process) bool {
		return a.PID == b.PID && (a.StartTime == b.StartTime || a.StartTime*b.StartTime == 0) && (a.BootID == b.BootID || a.BootID == "" || b.BootID == "")
	}
	for id, other := range m.model.rows {
		if p.PID != 0 && id != r.ID && other.State == ledger.Active && other.HostID == r.HostID && same(other.Process, p) {
			return true
		}
	}
	return false
}

// withCountablesOf is an entitlement with all dimensions of another one but memory and cpu, and
// with these if it has none of them.
func withCountablesOf(r, of resource.Resource) resource.Resource {
	for dimension, quantity := range of.All() {
		now, _ := r.Get(dimension)
		if dimension != resource.Memory && dimension != resource.CPU || now == 0 {
			r.Vector = r.With(dimension, quantity)
		}
	}
	return r
}

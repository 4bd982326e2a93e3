package ledger_test

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/identity"
	"github.com/bursar/bursar/resource"
)

// quantity draws an amount of a dimension into a vector: often nothing, sometimes zero.
func quantity(t *rapid.T, v resource.Vector, dimension string, most int64, left int) resource.Vector {
	if rapid.IntRange(0, 9).Draw(t, dimension+" left out") < left {
		return v
	}
	return v.With(dimension, rapid.Int64Range(0, most).Draw(t, dimension))
}

func request(t *rapid.T) resource.Vector {
	v := quantity(t, resource.Vector{}, resource.Memory, 6, 1)
	v = quantity(t, v, resource.CPU, 4, 3)
	v = quantity(t, v, resource.Instances, 2, 7)
	return quantity(t, v, "gpu", 2, 8)
}

func limit(t *rapid.T) resource.Vector {
	v := quantity(t, resource.Vector{}, resource.Memory, 12, 3)
	v = quantity(t, v, resource.CPU, 8, 6)
	v = quantity(t, v, resource.Instances, 4, 7)
	return quantity(t, v, "gpu", 3, 8)
}

func actor(t *rapid.T) identity.Actor {
	if rapid.IntRange(0, 9).Draw(t, "actor") == 0 {
		return identity.Actor{Name: "a", Users: []string{"a"}}
	}
	return identity.Local()
}

func wishes(t *rapid.T) *ledger.Wishes {
	switch rapid.IntRange(0, 9).Draw(t, "wishes") {
	case 0, 1, 2:
		return &ledger.Wishes{Host: rapid.SampledFrom(hostIDs).Draw(t, "host")}
	case 3:
		return &ledger.Wishes{Required: rapid.SampledFrom(hostLabels[1:]).Draw(t, "required")}
	case 4:
		return &ledger.Wishes{Avoid: []string{rapid.SampledFrom(hostIDs).Draw(t, "avoid")}}
	default:
		return nil
	}
}

// body draws a request. Its hash tells it from others.
func body(t *rapid.T) ledger.AllocateCommand {
	c := ledger.AllocateCommand{
		Labels:   rapid.SampledFrom(labelSets).Draw(t, "labels"),
		Resource: resource.NewResource(request(t)),
		Wait:     time.Duration(rapid.SampledFrom([]int{0, 0, 7, 20, 60, 600}).Draw(t, "wait")) * time.Second,
		Async:    rapid.Bool().Draw(t, "async"),
		Priority: rapid.SampledFrom([]int32{0, 0, 0, 1, -1}).Draw(t, "priority"),
		Wishes:   wishes(t),
	}
	if rapid.IntRange(0, 40).Draw(t, "out of range") == 0 {
		c.Resource.Vector = c.Resource.WithCPU(rapid.SampledFrom([]int64{-1, 1 << 60}).Draw(t, "cpu"))
	}
	if rapid.IntRange(0, 9).Draw(t, "short ttl") == 0 {
		c.ReservationTTL = 10 * time.Second
	}
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, c.Labels, c.Resource, c.Wait, c.Async, c.Priority, c.ReservationTTL)
	if c.Wishes != nil {
		_, _ = fmt.Fprint(h, *c.Wishes)
	}
	c.RequestHash = h.Sum64()
	return c
}

func (m *machine) allocate(t *rapid.T) {
	c := body(t)
	c.Actor = actor(t)
	if rapid.Bool().Draw(t, "with a request id") {
		c.RequestID = rapid.SampledFrom(requestIDs).Draw(t, "request")
	}
	m.ask(t, c)
}

// allocateAndWait draws what others are likely to stand in the way of.
func (m *machine) allocateAndWait(t *rapid.T) {
	c := body(t)
	c.Actor = identity.Local()
	c.Wait = time.Duration(rapid.IntRange(30, 600).Draw(t, "wait")) * time.Second
	m.ask(t, c)
}

// repeat makes a request again.
func (m *machine) repeat(t *rapid.T) {
	if len(m.bodies) > 0 {
		m.ask(t, m.bodies[rapid.SampledFrom(slices.Sorted(maps.Keys(m.bodies))).Draw(t, "body")])
	}
}

// ask allocates, and compares the answer with what the model says it must be.
func (m *machine) ask(t *rapid.T, c ledger.AllocateCommand) {
	if c.RequestID != "" {
		m.bodies[c.Actor.Name+" "+c.RequestID] = c
	}
	if id, live, known := m.model.request(c.Actor.Name, c.RequestID); known && c.RequestID != "" && c.Actor.MayActAs(c.Labels.Value("user")) {
		m.askAgain(t, c, id, live)
		return
	}
	var result ledger.AllocateResult
	var err error
	entry, wantError := m.admit(&c)
	hosts := m.model.fits(&entry, m.holds())
	never := m.model.never(&entry)
	want := nothing
	switch {
	case wantError != "":
	case len(hosts) > 0:
		want = func() expected { return expected{result.Allocation.ID: {ledger.Reserved}} }
	case never || c.Wait == 0:
		wantError = "insufficient"
	default:
		want = func() expected { return expected{result.Allocation.ID: {ledger.Waiting}} }
	}
	m.do(t, want, func(l *ledger.Ledger) { result, err = l.Allocate(m.model.now, c) })
	wantKind(t, wantError, err)
	if why, refused := err.(*ledger.InsufficientError); refused { //nolint:errorlint // compared as it is
		if (why.Reason == ledger.ReasonNever) != never || len(why.Shortfalls) == 0 && why.Filters == nil {
			t.Fatalf("refused: %v; never: %t", err, never)
		}
	}
	row := m.model.rows[result.Allocation.ID]
	switch {
	case err != nil:
	case row.State == ledger.Reserved && !slices.Contains(hosts, row.HostID):
		t.Fatalf("granted on %s; it fits on %v", row.HostID, hosts)
	case !row.Entitled.Equal(entry.Entitled) || !row.Requested.Equal(entry.Entitled):
		t.Fatalf("entitled to %s; want %s", row.Entitled, entry.Entitled)
	case row.State == ledger.Waiting && !c.Async:
		row.callers = 1
	}
}

// admit checks a request as far as it does not depend on what is free.
func (m *machine) admit(c *ledger.AllocateCommand) (entry ledger.Allocation, wantError string) {
	entry = ledger.Allocation{Labels: c.Labels, Wishes: c.Wishes, Entitled: c.Resource}
	if !c.Actor.MayActAs(c.Labels.Value("user")) || (c.Priority != 0 && !c.Actor.Priority) {
		return entry, "denied"
	}
	if c.Resource.Validate() != nil {
		return entry, "field"
	}
	if !c.Resource.Has(resource.Instances) {
		entry.Entitled.Vector = c.Resource.WithInstances(1)
	}
	rounded, err := m.model.normalize(c.Labels, entry.Entitled.Vector)
	if err != nil {
		return entry, "field"
	}
	entry.Entitled.Vector = rounded
	if w := c.Wishes; w != nil && w.Host != "" {
		h := m.model.hosts[w.Host]
		if h == nil {
			return entry, "not found"
		}
		if !matches(h, w) {
			return entry, "field"
		}
	}
	return entry, ""
}

// askAgain makes a request whose id is taken: invariant 5.
func (m *machine) askAgain(t *rapid.T, c ledger.AllocateCommand, id ledger.ID, live bool) {
	var result ledger.AllocateResult
	var err error
	again := func(l *ledger.Ledger) { result, err = l.Allocate(m.model.now, c) }
	row := m.model.rows[id]
	hash := m.model.ended[id].RequestHash
	if live {
		hash = row.RequestHash
	}
	if c.RequestHash != hash {
		m.do(t, nothing, again)
		wantKind(t, "conflict", err)
		return
	}
	granted := false
	if live && row.State == ledger.Waiting && !c.Async {
		granted = !row.present() && len(m.model.fits(&row.Allocation, m.holds())) > 0
		row.callers++
	}
	m.do(t, nothing, again)
	wantKind(t, "", err)
	if result.Allocation.ID != id || result.Ended == live {
		t.Fatalf("invariant 5: a repeat is %s, ended %t; want %s", result.Allocation.ID, result.Ended, id)
	}
	if granted && m.model.rows[id].State != ledger.Reserved {
		t.Fatalf("%s is back, its turn has come, and it is %s", id, m.model.rows[id].State)
	}
}

func (m *machine) explain(t *rapid.T) {
	c := body(t)
	c.Actor = actor(t)
	entry, wantError := m.admit(&c)
	var x ledger.Explanation
	var err error
	hosts := m.model.fits(&entry, m.holds())
	m.do(t, nothing, func(l *ledger.Ledger) { x, err = l.Explain(m.model.now, c) })
	wantKind(t, wantError, err)
	want := ledger.Waits
	switch {
	case err != nil:
		return
	case len(hosts) > 0:
		want = ledger.Fits
	case m.model.never(&entry):
		want = ledger.Never
	}
	if x.Verdict != want || (want == ledger.Fits && !slices.Contains(hosts, x.HostID)) {
		t.Fatalf("explained as %d on %q; want %d on one of %v", x.Verdict, x.HostID, want, hosts)
	}
}

// pick draws an allocation in one of some states; where there is none, any, an ended one, or one that never was.
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

// may is whether an actor may touch an allocation.
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
	r := m.model.rows[c.ID]
	want, wantError := only(c.ID, ledger.Released), ""
	switch {
	case r == nil:
		wantError = "not found"
	case !may(r, c.Actor):
		wantError = "denied"
	case c.HostID != "" && r.State.Holds() && r.HostID != c.HostID:
		wantError = "state"
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
	want, wantError := nothing, ""
	var next resource.Vector
	switch {
	case r == nil:
		wantError = "not found"
	case !may(r, c.Actor):
		wantError = "denied"
	case !r.State.Holds():
		wantError = "state"
	default:
		next = r.Entitled.Vector
		growth := ledger.Allocation{Labels: r.Labels, Wishes: &ledger.Wishes{Host: r.HostID}}
		for dimension, quantity := range c.Entitled.All() {
			before, _ := next.Get(dimension)
			if quantity > before {
				growth.Entitled.Vector = growth.Entitled.With(dimension, quantity-before)
			}
			next = next.With(dimension, quantity)
		}
		if !growth.Entitled.IsZero() && len(m.model.fits(&growth, m.holds())) == 0 {
			wantError = "insufficient"
		}
	}
	if wantError == "" {
		want = only(c.ID, r.State)
	}
	var err error
	m.do(t, want, func(l *ledger.Ledger) { _, err = l.Resize(m.model.now, c) })
	wantKind(t, wantError, err)
	if err == nil && !m.model.rows[c.ID].Entitled.Vector.Equal(next) {
		t.Fatalf("%s is entitled to %s; want %s", c.ID, m.model.rows[c.ID].Entitled, next)
	}
}

func (m *machine) stop(t *rapid.T) {
	c := ledger.StopCommand{Actor: actor(t), ID: m.pick(t, ledger.Active)}
	r := m.model.rows[c.ID]
	want, wantError := nothing, ""
	switch {
	case r == nil:
		wantError = "not found"
	case !may(r, c.Actor):
		wantError = "denied"
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

func (m *machine) confirm(t *rapid.T) {
	c := ledger.ConfirmCommand{Actor: actor(t), ID: m.pick(t, ledger.Reserved)}
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
		c.Entitled = &said
	}
	want, wantError := nothing, ""
	var next resource.Vector
	switch {
	case r == nil:
		wantError = "not found"
	case !may(r, c.Actor):
		wantError = "denied"
	case c.HostID != "" && r.State.Holds() && c.HostID != r.HostID:
		wantError = "state"
	case r.State == ledger.Active && r.Process.PID == c.Process.PID && (c.Process.StartTime == 0 || r.Process.StartTime == c.Process.StartTime):
		next = r.Entitled.Vector // it is confirmed already
	case r.State != ledger.Reserved:
		wantError = "state"
	default:
		next = r.Entitled.Vector
		if c.Entitled != nil {
			for dimension, quantity := range c.Entitled.All() {
				if reserved, _ := r.Entitled.Get(dimension); quantity > reserved {
					wantError = "field"
				}
				next = next.With(dimension, quantity)
			}
		}
		if c.Lease > 0 && c.Process.PID != 0 {
			wantError = "field"
		}
		if wantError == "" {
			want = only(c.ID, ledger.Active)
		}
	}
	var err error
	m.do(t, want, func(l *ledger.Ledger) { _, err = l.Confirm(m.model.now, c) })
	wantKind(t, wantError, err)
	if err == nil && !m.model.rows[c.ID].Entitled.Vector.Equal(next) {
		t.Fatalf("%s is confirmed with %s; want %s", c.ID, m.model.rows[c.ID].Entitled, next)
	}
}

package ledger_test

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
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
		w := &ledger.Wishes{Host: rapid.SampledFrom(hostIDs).Draw(t, "host")}
		if rapid.IntRange(0, 3).Draw(t, "with a label") == 0 {
			w.Required = rapid.SampledFrom(hostLabels[1:]).Draw(t, "required there")
		}
		return w
	case 3:
		return &ledger.Wishes{Required: rapid.SampledFrom(hostLabels[1:]).Draw(t, "required")}
	case 4:
		return &ledger.Wishes{Avoid: []string{rapid.SampledFrom(hostIDs).Draw(t, "avoid")}}
	default:
		return nil
	}
}

// body draws a request. Its hash tells it from others.
func (m *machine) body(t *rapid.T) ledger.AllocateCommand {
	c := ledger.AllocateCommand{
		Labels:   rapid.SampledFrom(labelSets).Draw(t, "labels"),
		Resource: resource.NewResource(request(t), parts(t)...),
		Wait:     time.Duration(rapid.SampledFrom([]int{0, 0, 7, 20, 60, 600}).Draw(t, "wait")) * time.Second,
		Async:    rapid.Bool().Draw(t, "async"),
		Priority: rapid.SampledFrom([]int32{0, 0, 0, 1, -1}).Draw(t, "priority"),
		Wishes:   wishes(t),
	}
	if m.abroad {
		c.Resource = resource.NewResource(resource.Vector{}.WithMemory(rapid.Int64Range(0, 2).Draw(t, "memory here")), partsAbroad(t)...)
		c.Wishes, c.Labels = nil, rapid.SampledFrom(labelSets[:2]).Draw(t, "labels abroad")
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
	c := m.body(t)
	c.Actor = actor(t)
	if rapid.Bool().Draw(t, "with a request id") {
		c.RequestID = rapid.SampledFrom(requestIDs).Draw(t, "request")
	}
	m.ask(t, c)
}

// allocateAndWait draws what others are likely to stand in the way of.
func (m *machine) allocateAndWait(t *rapid.T) {
	c := m.body(t)
	c.Actor = identity.Local()
	c.Wait = time.Duration(rapid.IntRange(30, 600).Draw(t, "wait")) * time.Second
	c.RequestID = rapid.SampledFrom(requestIDs).Draw(t, "request")
	c.RequestHash += uint64(c.Wait)
	m.ask(t, c)
}

// repeat makes a request again.
func (m *machine) repeat(t *rapid.T) {
	if len(m.bodies) > 0 {
		c := m.bodies[rapid.SampledFrom(slices.Sorted(maps.Keys(m.bodies))).Draw(t, "body")]
		if rapid.IntRange(0, 2).Draw(t, "not waiting any more") == 0 {
			c.Wait = 0
		}
		m.ask(t, c)
	}
}

// ask allocates, and compares the answer with what the model says it must be.
func (m *machine) ask(t *rapid.T, c ledger.AllocateCommand) {
	if c.RequestID != "" {
		m.bodies[c.Actor.Name+" "+c.RequestID] = c
	}
	before := expected{}
	if id, live, known := m.model.request(c.Actor.Name, c.RequestID); known && c.RequestID != "" && c.Actor.MayActAs(c.Labels.Value("user")) {
		row := m.model.rows[id]
		if !live || !row.brought || m.model.alike(row, &c) {
			m.askAgain(t, c, id, live)
			return
		}
		before[id] = []ledger.State{ledger.Active} // it has no request id any more
	}
	var result ledger.AllocateResult
	var err error
	entry, wantError := m.admit(&c)
	hosts := m.model.fits(&entry, m.holds())
	never := wantError == "" && m.model.never(&entry)
	becomes := ledger.State(0)
	switch {
	case wantError != "":
	case len(hosts) > 0:
		becomes = ledger.Reserved
	case never || c.Wait == 0:
		wantError = "insufficient"
	default:
		becomes = ledger.Waiting
	}
	want := func() expected {
		if becomes != 0 {
			before[result.Allocation.ID] = []ledger.State{becomes}
		}
		return before
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
	case !row.Entitled.Equal(entry.Entitled) || !row.Requested.Equal(askedOf(&c)):
		t.Fatalf("entitled to %s after a request for %s; want %s", row.Entitled, row.Requested, entry.Entitled)
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
	if c.Resource.Validate() != nil || asksForNone(c.Resource.Vector) {
		return entry, "field"
	}
	if entry.Entitled.External, wantError = m.model.resolve(c.Resource.External, c.Labels); wantError != "" {
		return entry, wantError
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
		if h := m.model.hosts[w.Host]; h != nil && !matches(h, w) {
			return entry, "field"
		}
	}
	return entry, ""
}

// asksForNone reports whether an engine of no instances is asked for.
func asksForNone(v resource.Vector) bool {
	n, asked := v.Get(resource.Instances)
	return asked && n == 0
}

// alike reports whether an adopted engine may be what a request asks for.
func (m *model) alike(r *modelRow, c *ledger.AllocateCommand) bool {
	asked := c.Resource.Vector
	if !asked.Has(resource.Instances) {
		asked = asked.WithInstances(1)
	}
	rounded, err := m.normalize(c.Labels, asked)
	where := true
	if w := c.Wishes; w != nil {
		where = (w.Host == "" || w.Host == r.HostID) && matches(m.hosts[r.HostID], w) && !slices.Contains(w.Avoid, r.HostID)
	}
	return err == nil && where && r.Labels.Equal(c.Labels) && r.Priority == c.Priority &&
		(r.Requested.Equal(askedOf(c)) || r.Requested.Equal(resource.Resource{Vector: rounded, External: c.Resource.External}))
}

// askedOf is what a request asks for: one engine, if it does not say how many.
func askedOf(c *ledger.AllocateCommand) resource.Resource {
	r := c.Resource
	if !r.Has(resource.Instances) {
		r.Vector = r.WithInstances(1)
	}
	return r
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
	if c.RequestHash != hash && (!live || !row.brought) {
		m.do(t, nothing, again)
		wantKind(t, "conflict", err)
		return
	}
	granted, wantError := false, ""
	switch {
	case !live || row.State != ledger.Waiting || c.Async:
	case c.Wait > 0:
		granted = !row.present() && len(m.model.fits(&row.Allocation, m.holds())) > 0
		row.callers++
	case len(m.model.fits(&row.Allocation, m.holds())) > 0:
		// now or not at all: its caller waits for the answer, even if no other does
		granted = true
		row.callers++
	default:
		wantError = "insufficient"
	}
	m.do(t, nothing, again)
	wantKind(t, wantError, err)
	if why, refused := err.(*ledger.InsufficientError); refused { //nolint:errorlint // compared as it is
		if len(why.Shortfalls) == 0 && why.Filters == nil {
			t.Fatalf("%s is refused without a reason: %v", id, err)
		}
		return
	}
	if result.Allocation.ID != id || result.Ended == live {
		t.Fatalf("invariant 5: a repeat is %s, ended %t; want %s", result.Allocation.ID, result.Ended, id)
	}
	if granted && m.model.rows[id].State != ledger.Reserved {
		t.Fatalf("%s is back, its turn has come, and it is %s", id, m.model.rows[id].State)
	}
}

func (m *machine) explain(t *rapid.T) {
	m.explainOne(t, m.pick(t, ledger.Waiting))
	c := m.body(t)
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

// explainOne asks why an allocation waits. A request without a caller has no place in a queue.
func (m *machine) explainOne(t *rapid.T, id ledger.ID) {
	var x ledger.Explanation
	var err error
	m.do(t, nothing, func(l *ledger.Ledger) { x, err = l.ExplainID(m.model.now, id, identity.Actor{}) })
	switch r := m.model.rows[id]; {
	case r == nil:
		wantKind(t, "not found", err)
	case r.State != ledger.Waiting:
		if x.Verdict != ledger.Decided || x.HostID != r.HostID || x.Place >= 0 {
			t.Fatalf("%s is %s and is explained as %+v", id, r.State, x)
		}
	case (x.Place >= 0) != r.present() || x.Verdict == ledger.Decided:
		t.Fatalf("%s waits, its caller is there: %t, and is explained as %+v", id, r.present(), x)
	}
}

package ledger_test

import (
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// amend changes a request that waits: it stays the same request, is never larger, and is granted
// only if it fits.
func (m *machine) amend(t *rapid.T) {
	c := ledger.AmendCommand{Actor: actor(t), ID: m.pick(t, ledger.Waiting)}
	if rapid.Bool().Draw(t, "another wait") {
		c.Wait = time.Duration(rapid.IntRange(1, 600).Draw(t, "wait")) * time.Second
	}
	if rapid.IntRange(0, 2).Draw(t, "another priority") == 0 {
		c.Priority = new(rapid.Int32Range(0, 2).Draw(t, "priority"))
	}
	r := m.model.rows[c.ID]
	larger := false
	if rapid.Bool().Draw(t, "another size") {
		said := resource.Resource{}
		if r != nil {
			for dimension, had := range r.Requested.All() {
				if rapid.Bool().Draw(t, "less of "+dimension) {
					now := rapid.Int64Range(0, had+1).Draw(t, dimension)
					larger = larger || now > had
					said.Vector = said.With(dimension, now)
				}
			}
		}
		c.Resource = &said
	}
	wantError := ""
	var want ledger.Allocation
	switch {
	case r == nil:
		wantError = "not found"
	case !may(r, c.Actor):
		wantError = "denied"
	case r.State != ledger.Waiting:
		wantError = "state"
	case c.Resource == nil && c.Wait == 0 && c.Priority == nil:
		wantError = "field"
	case c.Priority != nil && *c.Priority != r.Priority && !c.Actor.Priority:
		wantError = "denied"
	case larger || c.Resource != nil && asksForNone(c.Resource.Vector):
		wantError = "field"
	default:
		want = m.model.amended(r, &c)
		if c.Resource != nil && want.Entitled.IsZero() {
			wantError = "field"
		}
	}
	var result ledger.Allocation
	var err error
	becomes := nothing
	if wantError == "" {
		m.amending, m.amendedAgain = c.ID, false
		defer func() { m.amending = 0 }()
		becomes = func() expected {
			if m.amendedAgain { // it waits on
				return expected{c.ID: {ledger.Waiting}}
			}
			return nil
		}
	}
	m.do(t, becomes, func(l *ledger.Ledger) { result, err = l.Amend(m.model.now, c) })
	wantKind(t, wantError, err)
	if err != nil {
		return
	}
	if got := m.model.rows[c.ID]; got.Created != want.Created || got.Priority != want.Priority || !got.Entitled.Equal(want.Entitled) ||
		!got.Requested.Equal(want.Requested) || got.WaitDeadline != want.WaitDeadline || got.Async != want.Async || result.ID != c.ID {
		t.Fatalf("amended to %+v; want %+v", got.Allocation, want)
	}
}

// amended is a request as a command that is in order makes it.
func (m *model) amended(r *modelRow, c *ledger.AmendCommand) ledger.Allocation {
	next := r.Allocation
	if c.Wait > 0 {
		next.WaitDeadline, next.Async = m.now.Add(c.Wait), true
	}
	if c.Priority != nil {
		next.Priority = *c.Priority
	}
	if c.Resource == nil {
		return next
	}
	for dimension, quantity := range c.Resource.All() {
		next.Requested.Vector = next.Requested.With(dimension, quantity)
	}
	rounded, err := m.normalize(next.Labels, next.Requested.Vector)
	if err != nil {
		return next
	}
	for dimension, quantity := range next.Entitled.All() {
		more, _ := rounded.Get(dimension)
		next.Entitled.Vector = next.Entitled.With(dimension, min(quantity, more))
	}
	return next
}

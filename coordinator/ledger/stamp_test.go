package ledger_test

import (
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// Each change has the time and the actor of the command that made it. What comes due, and a grant
// to a request that waited, is the ledger's own.
func TestChangesSayWhenAndByWhom(t *testing.T) {
	l := ready(t)
	l.Changes()
	now := start
	stamped := func(c *ledger.Changes, revision uint64) (found ledger.Stamp) {
		for _, s := range c.Stamps {
			if s.From <= revision {
				found = s.Stamp
			}
		}
		return found
	}
	expect := func(what string, c *ledger.Changes, actors ...string) {
		t.Helper()
		if len(c.Transitions) != len(actors) {
			t.Errorf("%s: %d transitions; want %d", what, len(c.Transitions), len(actors))
			return
		}
		for i, actor := range actors {
			if got, want := stamped(c, c.Transitions[i].Revision), (ledger.Stamp{Time: now, Actor: actor}); got != want {
				t.Errorf("%s: transition %d is of %+v; want %+v", what, i, got, want)
			}
		}
	}
	by := func(actor string, after time.Duration, command func()) *ledger.Changes {
		now = now.Add(after)
		l.ActAs(actor)
		command()
		l.ActAs("")
		c := l.Changes()
		return &c
	}
	allocate := func(memory int64, wait time.Duration) (id ledger.ID) {
		result, err := l.Allocate(now, ledger.AllocateCommand{
			Actor: identity.Local(), Labels: label.Of("user", "u"), Resource: resource.NewResource(resource.Vector{}.WithMemory(memory)),
			Wait: wait, Async: true, ReservationTTL: time.Hour,
		})
		must(t, err)
		return result.Allocation.ID
	}
	var a ledger.ID
	expect("a grant", by("alice", time.Second, func() { a = allocate(1<<40, 0) }), "alice")
	expect("a wait", by("bob", time.Second, func() { allocate(1<<40, time.Hour) }), "bob")
	expect("an end, and a grant to another's request", by("carol", time.Second, func() {
		_, err := l.Release(now, ledger.ReleaseCommand{Actor: identity.Local(), ID: a})
		must(t, err)
	}), "carol", "")
	expect("what was due before", by("dave", time.Hour, func() { _, _ = l.Cordon(now, "h1", "") }), "")

	rule := ledger.Quota{Limit: resource.Vector{}.WithMemory(1)}
	c := by("ops", time.Second, func() { must(t, l.PutQuota(now, rule)) })
	if got, want := c.QuotaStamps["*"], (ledger.Stamp{Time: now, Actor: "ops"}); got != want {
		t.Errorf("a rule is of %+v; want %+v", got, want)
	}
	c = by("ops", time.Second, func() { must(t, l.DeleteQuota(now, rule.Selector)) })
	if got, want := c.QuotaStamps["*"], (ledger.Stamp{Time: now, Actor: "ops"}); got != want {
		t.Errorf("the end of a rule is of %+v; want %+v", got, want)
	}
	c = by("ops", time.Second, func() {
		_, err := l.Uncordon(now, "h1")
		must(t, err)
	})
	if got, want := stamped(c, c.Hosts[len(c.Hosts)-1].Revision), (ledger.Stamp{Time: now, Actor: "ops"}); got != want {
		t.Errorf("a host is of %+v; want %+v", got, want)
	}
	c = by("root", time.Second, func() { must(t, l.Deregister(now, "h1", true)) })
	if got, want := c.HostStamps["h1"], (ledger.Stamp{Time: now, Actor: "root"}); got != want {
		t.Errorf("the end of a host is of %+v; want %+v", got, want)
	}
}

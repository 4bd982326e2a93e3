package sim

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// zeros adds to a vector countables that nobody has, in an amount of zero: up to as many as a
// message may have.
func (w *World) zeros(v resource.Vector) resource.Vector {
	if !w.chance(4) {
		return v
	}
	kind := []string{"x", "y"}[w.rng.IntN(2)]
	for i := range w.rng.IntN(resource.MaxCustom + 1 - len(v.Custom())) {
		v = v.With(fmt.Sprintf("%s%d", kind, i), 0)
	}
	return v
}

// checkTaken holds invariant 10: the store can write and read whatever was requested.
func (w *World) checkTaken(by string, err error) {
	if row, refused := errors.AsType[*store.RowError](err); refused {
		w.failf(10, "the store cannot take a row that %s has made: %v", by, row)
	}
}

// checkWait holds invariant 7 for every call: nobody waits longer than the call said, in real
// time.
func (c *coord) checkWait(command *ledger.AllocateCommand, waits func() (ledger.ID, bool)) {
	began, epoch := c.w.now, c.core.Meta().Epoch
	// A skew of clocks makes the ledger's time a tenth slower.
	c.then(command.Wait*10/9+time.Second, func() {
		if !c.core.Leading() || c.core.Meta().Epoch != epoch {
			return
		}
		c.advance()
		id, still := waits()
		if a, live := c.core.Ledger().Get(id); still && live && a.State == ledger.Waiting && !c.core.Ledger().Behind() {
			c.w.failf(7, "%s: %s still waits for %s on the line, after %s: it wanted to do so for %s",
				c.name, command.RequestID, id, c.w.now.Sub(began), command.Wait)
		}
	})
}

// checkReasons holds that a refusal says what is missing, and names nothing that fits.
func (c *coord) checkReasons(refusal *ledger.InsufficientError) {
	if len(refusal.Shortfalls) == 0 && refusal.Filters == nil {
		c.w.failf(12, "%s: refused without a reason: %v", c.name, refusal)
	}
	if refusal.Filters != nil && refusal.Filters.Fit > 0 && len(refusal.Shortfalls) <= 1 && !strings.Contains(refusal.Error(), "queue ") && !strings.Contains(refusal.Error(), "quota ") {
		c.w.failf(12, "%s: refused for want of a host, and some fit: %v", c.name, refusal)
	}
}

// checkWished holds that a grant is on a host with the required labels.
func (r *callerRecord) checkWished(a *ledger.Allocation, info *ledger.HostInfo) {
	if w := a.Wishes; w != nil && !info.Labels.MatchesFilter(w.Required) {
		r.w.failf(3, "%s requires %s and is granted on host %s with %s", a.ID, w.Required, info.ID, info.Labels)
	}
}

// checkBlockers holds that a waiting request says what blocks it.
func (w *World) checkBlockers(c *coord) {
	l := c.core.Ledger()
	var waiting []ledger.ID
	l.Allocations(0, func(a *ledger.Allocation) bool {
		if a.State == ledger.Waiting {
			waiting = append(waiting, a.ID)
		}
		return true
	})
	for _, id := range waiting {
		x, err := l.ExplainID(c.ledgerTime(), id, identity.Actor{})
		a, live := l.Get(id)
		if err != nil || !live || a.State != ledger.Waiting || x.BlockedBy == nil {
			continue
		}
		if !strings.Contains(a.Reason, x.BlockedBy.String()) {
			w.failf(12, "%s: %s is blocked by %s and says that it %s", c.name, id, x.BlockedBy, a.Reason)
		}
	}
}

// move moves a part of a reservation from one queue to another in the same cluster, before it is
// confirmed. The queues above both do not change.
func (a *attempt) move() {
	id, _ := ledger.ParseID(a.id)
	from, to := a.parts[0], a.parts[1]
	if from.Cluster != to.Cluster || from.Partition != to.Partition {
		return
	}
	size, other := amountOf(from.Vector), amountOf(to.Vector)
	moved := size[0] / 2
	size[0] -= moved
	other[0] += moved
	from.Vector, to.Vector = size.vector(), other.vector()
	a.host.agent.command(func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		before, live := l.Get(id)
		_, err := l.Resize(now, ledger.ResizeCommand{Actor: a.command.Actor, ID: id, Entitled: resource.NewResource(resource.Vector{}, from, to)})
		insufficient, refused := errors.AsType[*ledger.InsufficientError](err)
		if !live || before.State != ledger.Reserved || !refused || !before.Entitled.Equal(resource.NewResource(before.Entitled.Vector, a.parts...)) {
			return ledger.Allocation{}, err
		}
		for _, f := range insufficient.Shortfalls {
			path := f.Account.Labels.Value("path")
			if path != "" && strings.HasPrefix(from.Path, path+".") && strings.HasPrefix(to.Path, path+".") {
				a.l.w.failf(12, "%s moves %d MiB from %s to %s and is refused for %s", a.id, moved/mib, from.Path, to.Path, f)
			}
		}
		return ledger.Allocation{}, err
	}, func(*bursarv1.Allocation, error) {})
}

// launchStrangers makes somebody report hosts that do not exist, with the number of the epoch,
// which is no secret.
func (w *World) launchStrangers() {
	l := w.newLink("stranger")
	w.after(w.between(time.Second, 20*time.Second), "", func() {
		if w.calm {
			return
		}
		l.at = w.rng.IntN(len(w.coords))
		l.call(0, func(c *coord, reply func(answer)) func() {
			c.stranger(reply)
			return nil
		}, func(any) { w.launchStrangers() })
	})
}

func (c *coord) stranger(reply func(answer)) {
	epoch := c.core.Meta().Epoch
	q := &bursarv1.SyncRequest{HostId: "nobody", Incarnation: 1, Sequence: 1, Epoch: epoch, Full: true}
	c.sync(q, c.leadership, reply)
	if !c.core.Leading() {
		c.w.failf(10, "%s has ended epoch %d because of a host that nobody has", c.name, epoch)
	}
}

package sim

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// amountsOf are what the parts of an allocation are entitled to, in their order.
func amountsOf(a *ledger.Allocation) (list []amount) {
	for _, x := range a.Entitled.External {
		list = append(list, amountOf(x.Vector))
	}
	return list
}

// clusterName is that of a part.
func clusterName(x *resource.External) ledger.ClusterName {
	return ledger.ClusterName{Kind: x.Kind, Cluster: x.Cluster}
}

func spotOf(x *resource.External) spot { return spot{x.Path, x.Partition} }

// tenants are the live allocations that hold something in queues.
func tenants(l *ledger.Ledger) (list []ledger.Allocation) {
	l.Allocations(0, func(a *ledger.Allocation) bool {
		if a.State.Holds() && len(a.Entitled.External) > 0 {
			list = append(list, *a)
		}
		return true
	})
	return list
}

// checkQueueGrants holds, of everything that was granted in queues since the last look, that the queues had it: grants, and what a
// resize has added. What an agent brings back was granted before.
func (b *book) checkQueueGrants(c *coord) {
	if len(b.w.clusters) == 0 {
		return
	}
	l := c.core.Ledger()
	live := tenants(l)
	parts := make(map[ledger.ID][]amount, len(live))
	for i := range live {
		a := &live[i]
		parts[a.ID] = amountsOf(a)
		before, known := c.parts[a.ID]
		fresh := a.State == ledger.Reserved && a.GrantRevision > c.granted
		if !fresh && !known {
			continue
		}
		grown := make([]amount, len(parts[a.ID]))
		for j, now := range parts[a.ID] {
			for k := range now {
				if fresh || now[k] > before[j][k] {
					grown[j][k] = now[k]
				}
			}
		}
		b.checkParts(c, a, grown, live)
	}
	c.parts = parts
}

// checkParts looks at every queue that a grant touches, and at those above.
func (b *book) checkParts(c *coord, a *ledger.Allocation, grown []amount, live []ledger.Allocation) {
	seen := make(map[ledger.ClusterName]map[spot]bool)
	for i := range a.Entitled.External {
		x := &a.Entitled.External[i]
		if grown[i] == (amount{}) {
			continue
		}
		name := clusterName(x)
		if seen[name] == nil {
			seen[name] = make(map[spot]bool)
		}
		if !b.checkKnown(c, a, x) {
			return
		}
		b.w.tally.QueueGrants++
		for path := x.Path; path != ""; path = parent(path) {
			at := spot{path, x.Partition}
			if !seen[name][at] {
				seen[name][at] = true
				b.checkQueue(c, a, name, at, grown, live)
			}
		}
	}
}

// checkKnown holds that something is known of the cluster in which something was granted: it was read, and that is to be counted on,
// not too old, and not forgotten since; and that it has the queue, or makes it.
func (b *book) checkKnown(c *coord, a *ledger.Allocation, x *resource.External) bool {
	s := c.standing[clusterName(x)]
	switch now := c.instant(); {
	case s == nil:
		b.w.failf(1, "%s was granted in %s, of which nothing is known", a.ID, x.Address)
	case s.report.Untrusted != "":
		b.w.failf(1, "%s was granted in %s: %s", a.ID, x.Address, s.report.Untrusted)
	case now >= s.report.Asked.Add(s.report.GoodFor):
		b.w.failf(1, "%s was granted in %s, which was read %s ago", a.ID, x.Address, now.Sub(s.report.Asked))
	case s.queues[spotOf(x)] == nil && !s.makes(spotOf(x)):
		b.w.failf(1, "%s was granted in %s, which is not there", a.ID, x.Address)
	default:
		return true
	}
	return false
}

// makes reports whether a queue that is not there is made by using it.
func (s *snapshot) makes(at spot) bool {
	for path := parent(at.path); path != ""; path = parent(path) {
		if q := s.queues[spot{path, at.partition}]; q != nil {
			return q.CreatesChildren
		}
	}
	return false
}

// checkQueue holds invariant 1 for a queue, in the dimensions that were granted there: right after the grant, what all live allocations are
// entitled to there, and what others truly used there at the moment of the snapshot that the ledger has, is within the limit of that
// snapshot. What others take after the snapshot is nobody's fault.
//
// Others are everybody but live allocations. Of what the applications of a live allocation held, as much as its part is entitled to was
// its own; what they held beyond that, or in another queue or partition, was others'. Of an engine that had named no application when the
// cluster was asked, later than the settle rule gives it time, all of its part counts as held.
func (b *book) checkQueue(c *coord, a *ledger.Allocation, name ledger.ClusterName, at spot, grown []amount, live []ledger.Allocation) {
	s := c.standing[name]
	q := s.queues[at]
	if q == nil {
		return // it is to be made, and has no limit yet
	}
	if q.Closed {
		b.w.failf(1, "%s was granted in %s %s, which is closed", a.ID, name, at)
		return
	}
	var asked amount
	for i := range a.Entitled.External {
		if x := &a.Entitled.External[i]; clusterName(x) == name && spotOf(x).within(at) {
			asked = asked.plus(grown[i])
		}
	}
	ours, others := s.shares(name, at, live)
	for i, dimension := range dimensions {
		limit, limited := q.Limit.Get(dimension)
		if asked[i] == 0 || !limited && dimension != gpu {
			continue
		}
		if ours[i]+others[i] > limit {
			b.w.failf(1, "the grant of %s put queue %s %s over its limit: %s of allocations %d, of others %d, limit %d",
				a.ID, name, at, dimension, ours[i], others[i], limit)
		}
	}
}

// shares are what live allocations are entitled to at a place, and what others truly held there at the moment of the snapshot.
func (s *standing) shares(name ledger.ClusterName, at spot, live []ledger.Allocation) (ours, others amount) {
	for _, h := range s.held {
		if h.at.within(at) {
			others = others.plus(h.amount)
		}
	}
	for i := range live {
		a := &live[i]
		for j := range a.Entitled.External {
			x := &a.Entitled.External[j]
			if clusterName(x) != name || !spotOf(x).within(at) {
				continue
			}
			part := amountOf(x.Vector)
			ours = ours.plus(part)
			own := part.atMost(s.heldFor(a.ID.String(), spotOf(x)))
			if settled := s.settled[a.ID]; settled != nil {
				for k := range own {
					own[k] = max(own[k], min(part[k], settled[j][k]))
				}
			}
			others = others.plus(own.times(-1))
		}
	}
	for i := range others {
		others[i] = max(0, others[i])
	}
	return ours, others
}

// heldFor is what the applications that were started under an allocation held in a queue.
func (s *snapshot) heldFor(allocation string, at spot) (sum amount) {
	for _, h := range s.held {
		if h.allocation == allocation && h.at == at {
			sum = sum.plus(h.amount)
		}
	}
	return sum
}

// checkRefusal holds what a refusal says of queues.
func (c *coord) checkRefusal(refused error) {
	insufficient, ok := errors.AsType[*ledger.InsufficientError](refused)
	if !ok {
		return
	}
	if insufficient.Reason == ledger.ReasonNever {
		c.checkNever(insufficient)
		return
	}
	c.checkUntimely(insufficient)
}

// checkUntimely holds that nobody is sent away for want of nothing but clusters that a new leader has not had the time to read: it is too
// early to say no.
func (c *coord) checkUntimely(refusal *ledger.InsufficientError) {
	unread := len(refusal.Shortfalls) > 0
	for i := range refusal.Shortfalls {
		f := &refusal.Shortfalls[i]
		unread = unread && f.Note == ledger.NoteUnknown && f.Account.Kind == ledger.QueueAccount && c.awaits(clusterOf(f))
		if f.Account.Kind == ledger.QueueAccount && f.Note != ledger.NoteUnknown && refusal.Returning {
			c.w.failf(7, "refused for %s, and told to try again", f)
		}
	}
	unread = unread && refusal.Filters == nil // else no host has room either
	if unread {
		c.w.tally.Untimely++
	}
	if unread && !refusal.Returning {
		c.w.failf(7, "refused for want of clusters that have not been read yet: %v", refusal)
	}
}

// awaits reports whether a cluster has been configured since this leadership began, or before, and is still to be read.
func (c *coord) awaits(name ledger.ClusterName) bool {
	soon := c.instant() < c.ledAt.Add(2*times().Interval)
	configured := slices.ContainsFunc(c.records, func(r ledger.ProviderRecord) bool { return r.ClusterName == name })
	return soon && configured && !c.heard[name]
}

// clusterOf is the cluster of a queue that falls short.
func clusterOf(f *ledger.Shortfall) ledger.ClusterName {
	return ledger.ClusterName{Kind: f.Account.Labels.Value("kind"), Cluster: f.Account.Labels.Value(label.Cluster)}
}

// checkNever holds that a request is refused for good only for a limit that is known, and smaller.
func (c *coord) checkNever(refusal *ledger.InsufficientError) {
	for i := range refusal.Shortfalls {
		f := &refusal.Shortfalls[i]
		if f.Account.Kind != ledger.QueueAccount || f.Note != ledger.NoteNever {
			continue
		}
		s := c.standing[clusterOf(f)]
		if s == nil || s.report.Untrusted != "" || c.instant() >= s.report.Asked.Add(s.report.GoodFor) {
			c.w.failf(7, "refused for good for %s, of which nothing is known", f.Account)
			continue
		}
		q := s.queues[spot{f.Account.Labels.Value("path"), f.Account.Labels.Value("partition")}]
		if q == nil {
			c.w.failf(7, "refused for good for %s, which is not there", f.Account)
			continue
		}
		if most, _ := q.Limit.Get(f.Dimension); f.Requested <= most {
			c.w.failf(7, "refused for good for %s: %s %d of %d", f.Account, f.Dimension, f.Requested, most)
		}
	}
}

// ownLives are the allocations that live as long as their applications in a cluster.
func ownLives(l *ledger.Ledger, name ledger.ClusterName) (list []ledger.Allocation) {
	for _, a := range tenants(l) {
		part := func(x resource.External) bool { return clusterName(&x) == name }
		if a.State == ledger.Active && a.Process.PID == 0 && slices.ContainsFunc(a.Entitled.External, part) {
			list = append(list, a)
		}
	}
	return list
}

// checkEnded holds that a report ends no allocation of which an application still runs in the cluster.
func (w *World) checkEnded(l *ledger.Ledger, before []ledger.Allocation, s *snapshot) {
	for _, a := range before {
		if _, live := l.Get(a.ID); live {
			continue
		}
		w.tally.OwnLives++
		for _, id := range a.ApplicationIDs {
			if app := s.from.known[id]; app != nil && !app.over {
				w.failf(7, "%s was released while its application %s runs", a.ID, id)
			}
		}
	}
}

// checkPatience holds that nobody waits for a queue who could go ahead: whatever makes room wakes who waits for it.
func (w *World) checkPatience(c *coord) {
	l := c.core.Ledger()
	var waiting []ledger.Allocation
	l.Allocations(0, func(a *ledger.Allocation) bool {
		vetoed := strings.HasPrefix(a.Reason, ledger.ReasonVetoed) // its caller may have been answered already
		if a.State == ledger.Waiting && len(a.Entitled.External) > 0 && c.line[a.Caller+"/"+a.RequestID] > 0 && !vetoed {
			waiting = append(waiting, *a)
		}
		return true
	})
	for i := range waiting {
		x, err := l.ExplainID(c.instant(), waiting[i].ID)
		if err != nil {
			continue // its time has come just now
		}
		if x.Verdict == ledger.Fits && x.Allocation != nil && x.Allocation.State == ledger.Waiting {
			w.failf(7, "%s: %s waits and could go ahead", c.name, waiting[i].ID)
		}
	}
}

// checkClustersEnd holds, when the world is at rest, that the accounts of all queues are what is true.
func (w *World) checkClustersEnd(c *coord) {
	l := c.core.Ledger()
	live := tenants(l)
	for _, e := range w.clusters {
		s := c.standing[e.name]
		switch {
		case s == nil || s.from != e.current() && !e.fixed || s.report.Untrusted != "":
			w.failf(8, "cluster %s is not known at the end", e.name)
			return
		case w.now.Sub(s.at) > 2*interval*2+time.Second:
			w.failf(8, "cluster %s was not read for %s", e.name, w.now.Sub(s.at))
			return
		}
		places := make(map[spot]bool)
		for at := range s.queues {
			places[at] = true
		}
		for i := range live {
			for j := range live[i].Entitled.External {
				x := &live[i].Entitled.External[j]
				for path := x.Path; path != "" && clusterName(x) == e.name; path = parent(path) {
					places[spot{path, x.Partition}] = true
				}
			}
		}
		l.Queues(resource.Address{}, func(q ledger.QueueInfo) bool {
			if q.Address.Cluster == e.name.Cluster {
				at := spot{q.Address.Path, q.Address.Partition}
				if !places[at] {
					w.failf(2, "queue %s is in the books and nobody's", q.Address)
				}
				delete(places, at)
				w.checkQueueEnd(s, q, at, live)
			}
			return true
		})
		for at := range places {
			w.failf(2, "queue %s %s is not in the books", e.name, at)
		}
	}
	w.checkRemote(live)
}

// checkQueueEnd compares a queue's account with what is true.
func (w *World) checkQueueEnd(s *standing, q ledger.QueueInfo, at spot, live []ledger.Allocation) {
	var ours, others amount
	name := s.report.ClusterName
	for _, a := range s.from.apps {
		if a.at.within(at) {
			others = others.plus(a.held())
		}
	}
	for i := range live {
		a := &live[i]
		for j := range a.Entitled.External {
			x := &a.Entitled.External[j]
			if clusterName(x) != name || !spotOf(x).within(at) {
				continue
			}
			part := amountOf(x.Vector)
			ours = ours.plus(part)
			shown := amount{}
			switch {
			case a.State != ledger.Active:
			case len(a.ApplicationIDs) == 0:
				shown = part
			default:
				for _, id := range a.ApplicationIDs {
					if app := s.from.known[id]; app != nil && !app.over && app.at == spotOf(x) {
						shown = shown.plus(app.held())
					}
				}
				shown = part.atMost(shown)
			}
			others = others.plus(shown.times(-1))
		}
	}
	counted := amountOf(q.Account.Used).plus(amountOf(q.Account.Reserved))
	if counted != ours {
		w.failf(2, "queue %s: %v counted, allocations have %v", q.Address, counted, ours)
	}
	if s.queues[at] == nil {
		return
	}
	for i := range others {
		others[i] = max(0, others[i])
	}
	if amountOf(q.Account.Others) != others {
		w.failf(8, "queue %s: others are said to use %v, and truly use %v", q.Address, amountOf(q.Account.Others), others)
	}
	if !q.Known || q.Unavailable != "" {
		w.failf(8, "queue %s: known %t, %q", q.Address, q.Known, q.Unavailable)
	}
}

// checkRemote holds that what lives as long as its applications has one.
func (w *World) checkRemote(live []ledger.Allocation) {
	for i := range live {
		a := &live[i]
		if a.State != ledger.Active || a.Process.PID != 0 || len(a.ApplicationIDs) == 0 {
			continue
		}
		runs := false
		for j := range a.Entitled.External {
			y := w.clusterOf(a.Entitled.External[j].Cluster).current()
			for _, id := range a.ApplicationIDs {
				app := y.known[id]
				runs = runs || app != nil && !app.over
			}
		}
		if !runs {
			w.failf(8, "%s is active, and its applications %v are over", a.ID, a.ApplicationIDs)
		}
	}
}

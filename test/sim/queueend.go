package sim

import (
	"slices"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// checkClustersEnd holds, when the world is at rest, that the accounts of all queues are what is
// true.
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
		places := s.places(live)
		l.Queues(resource.Address{}, func(q ledger.QueueInfo) bool {
			if q.Address.Cluster == e.name.Cluster {
				at := queueKey{q.Address.Path, q.Address.Partition}
				if !places[at] {
					w.failf(2, "queue %s is in the ledger and nobody's", q.Address)
				}
				delete(places, at)
				w.checkQueueEnd(s, q, at, live)
			}
			return true
		})
		for at := range places {
			w.failf(2, "queue %s %s is not in the ledger", e.name, at)
		}
	}
	w.checkRemote(live)
}

// places are all queues that the ledger must have for the cluster: its own, and those that live
// allocations touch.
func (s *snapshot) places(live []ledger.Allocation) map[queueKey]bool {
	places := make(map[queueKey]bool)
	for at := range s.queues {
		places[at] = true
	}
	for i := range live {
		for j := range live[i].Entitled.External {
			x := &live[i].Entitled.External[j]
			for path := x.Path; path != "" && clusterName(x) == s.report.ClusterName; path = parent(path) {
				places[queueKey{path, x.Partition}] = true
			}
		}
	}
	return places
}

// checkQueueEnd compares a queue's account with what is true.
func (w *World) checkQueueEnd(s *standing, q ledger.QueueInfo, at queueKey, live []ledger.Allocation) {
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
			if clusterName(x) != name || !queueKeyOf(x).within(at) {
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
					if app := s.from.known[id]; app != nil && !app.over && app.at == queueKeyOf(x) {
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

// checkEnded holds that a report ends no allocation that still has a running application in a
// known cluster.
func (c *coord) checkEnded(l *ledger.Ledger, before []ledger.Allocation) {
	for i := range before {
		a := &before[i]
		if _, live := l.Get(a.ID); live {
			continue
		}
		c.w.tally.OwnLives++
		for j := range a.Entitled.External {
			s := c.standing[clusterName(&a.Entitled.External[j])]
			for _, id := range a.ApplicationIDs {
				if s == nil {
					continue
				}
				if app := s.from.known[id]; app != nil && !app.over {
					c.w.failf(7, "%s was released while its application %s runs", a.ID, id)
				}
			}
		}
	}
}

// checkRemote holds that an allocation that lives as long as its applications has one.
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

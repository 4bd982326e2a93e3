package ledger

import (
	"cmp"
	"slices"

	"github.com/bursar/bursar/resource"
)

// # Applications that run elsewhere
//
// A cluster may run an application in another queue than the granted one: because of its placement
// rules, or because somebody has moved it. Then the part of the allocation follows the application
// in one step: before it the part counts in the one queue and in those above, after it in the other
// and in those above that. It follows before the report's figures for allocations are counted. So
// it counts like any part that the cluster has not shown yet: in full next to the use of others,
// until a second reading shows the application there.
//
// A move is no grant. It may put the other queue, or a limit of external parts, over its limit. So
// parts follow only applications that run as the user of their allocation, see readingowners.go.

// followCost is the cost of a part that follows its application, in units of a step.
const followCost = 16

// follow lets the parts of an allocation follow its applications, and records the reason of those
// that did not end well. It returns its cost in units of a step.
func (r *reading) follow(l *Ledger, e *entry) (cost int) {
	cost = 1 + len(e.ApplicationIDs)
	if e.State != Active || len(e.ApplicationIDs) == 0 || len(r.answers) == 0 {
		return cost
	}
	r.see(e)
	part, to, application, why := r.strayed(e)
	reason := cmp.Or(r.failure(e, r.settled(e)), r.strange(e), why)
	if reason == "" && e.Reason == "" && r.settled(e) {
		reason = r.neverSeen(e)
	}
	say := reason != "" && reason != e.Reason && !r.endsWith(e)
	if to != "" {
		from := e.Entitled.External[part].Address
		if next, fits := e.moved(part, to); fits {
			l.movePart(e, part, next)
			reason, say = "its part in "+from.Path+" has followed "+application+" to "+to, true
		}
	}
	if say {
		e.Reason = reason
		l.recordEntry(e)
		cost += followCost + len(e.external.charges)
	}
	return cost
}

// strayed finds the part of an allocation whose application runs in another queue, and that queue;
// to is empty if there is none, or if the part is ambiguous. If the part does not follow because
// the application's owner is unknown, why says so.
func (r *reading) strayed(e *entry) (part int, to, application, why string) {
	var used [resource.MaxExternal]bool // parts in which an application runs
	var strays []*ApplicationReport
	for i, id := range e.ApplicationIDs {
		if r.owners[id].id != e.ID || slices.Contains(e.ApplicationIDs[:i], id) {
			continue
		}
		a := r.answers[id]
		if a == nil {
			return 0, "", "", "" // it may run in any of them
		}
		if !a.Known || a.Ended || a.Queue == "" {
			continue
		}
		home := false
		for i := range e.Entitled.External {
			if r.has(&e.Entitled.External[i]) && r.runsIn(a, e.Entitled.External[i].Path) {
				used[i], home = true, true
			}
		}
		if home {
			continue
		}
		path := r.takes(a.Queue)
		if path == "" || to != "" && to != path {
			return 0, "", "", ""
		}
		to, application = path, id
		strays = append(strays, a)
	}
	part, found := r.unused(e, &used)
	if len(strays) == 0 || !found || slices.ContainsFunc(strays, func(a *ApplicationReport) bool { return !r.isIn(e, a, e.Entitled.External[part].Partition) }) {
		return 0, "", "", ""
	}
	if slices.ContainsFunc(strays, func(a *ApplicationReport) bool { return e.belongs(r.cluster, a) != itsOwn }) {
		return 0, "", "", "nobody can tell whose " + application + " is, so its part in " + e.Entitled.External[part].Path + " does not follow it to " + to
	}
	return part, to, application, ""
}

// unused returns the only unused part in the cluster; false: there is none, or several.
func (r *reading) unused(e *entry, used *[resource.MaxExternal]bool) (part int, only bool) {
	found := 0
	for i := range e.Entitled.External {
		if r.has(&e.Entitled.External[i]) && !used[i] {
			part = i
			found++
		}
	}
	return part, found == 1
}

// isIn reports whether an application of an allocation runs in a partition: it holds something
// there. If the cluster does not report the partition, no part of the allocation may be in another
// partition of the cluster.
func (r *reading) isIn(e *entry, a *ApplicationReport, partition string) bool {
	told := false
	for of, v := range a.Allocated {
		if of != AnyPartition && !v.IsZero() {
			told = true
		}
	}
	if told {
		return !a.Allocated[partition].IsZero()
	}
	return !slices.ContainsFunc(e.Entitled.External, func(part resource.External) bool { return r.has(&part) && part.Partition != partition })
}

// has reports whether a part is in the cluster.
func (r *reading) has(part *resource.External) bool {
	return part.Kind == r.Kind && part.Cluster == r.Cluster
}

// pathOf returns the full path of a queue name from the cluster; empty if it is ambiguous. The
// queue may have been made after the queues were read.
func (r *reading) pathOf(queue string) string {
	switch paths := r.leaves[queue]; {
	case r.namesPath(queue):
		if _, there := r.standard[queue]; there || resource.ValidPath(queue) {
			return queue
		}
	case len(paths) == 1:
		return paths[0]
	}
	return ""
}

// namesPath reports whether the cluster's name of a queue is its full path.
func (r *reading) namesPath(queue string) bool {
	_, there := r.standard[queue]
	return there || r.cluster.isFull(queue)
}

// endsWith reports whether an allocation lives as long as its applications, and these have ended by
// the report. Its end then carries the reason of its applications.
func (r *reading) endsWith(e *entry) bool { return e.finished(r.answers, r.settled(e)) }

// settled reports whether the cluster had the time to see the allocation's applications, and an
// operator the time to notice that it is the wrong cluster.
func (r *reading) settled(e *entry) bool {
	return r.Untrusted == "" && r.Asked >= max(e.Confirmed, e.external.changed, r.cluster.since).Add(r.Settle)
}

// see notes which applications of an allocation the cluster knows.
func (r *reading) see(e *entry) {
	for i, id := range e.ApplicationIDs {
		if a := r.answers[id]; a != nil && a.Known {
			e.external.seen |= 1 << i
		}
	}
}

// failure names an application of an allocation that did not end well, and why, or one that is
// lost; empty if none is known. An application that no cluster knows is lost if one knew it, once
// the clusters had the time to see it.
func (r *reading) failure(e *entry, settled bool) string {
	for _, id := range e.ApplicationIDs {
		for i := range e.external.memberships {
			c := e.external.memberships[i].cluster
			if a := r.answer(c, id); a != nil && a.Known && a.Ended && a.Failure != "" && e.belongs(c, a) != foreign {
				return withReason(id+" "+validText(a.how()), validText(a.Diagnostics))
			}
		}
	}
	return r.unknown(e, settled, true)
}

// neverSeen names an application that no cluster has known.
func (r *reading) neverSeen(e *entry) string { return r.unknown(e, true, false) }

// unknown names an application that no cluster knows. seen selects the applications that one knew
// before, or the others. The result is empty if there is none. Knowledge from before the load does
// not count.
func (r *reading) unknown(e *entry, settled, seen bool) string {
	if !settled {
		return ""
	}
	for i, id := range e.ApplicationIDs {
		if seen != (e.external.seen&(1<<i) != 0) || slices.ContainsFunc(e.external.memberships, func(m membership) bool {
			a := r.answer(m.cluster, id)
			return a == nil || a.Known
		}) {
			continue
		}
		if seen {
			return "its cluster does not know " + id + " any more"
		}
		return "its cluster does not know " + id
	}
	return ""
}

// answer returns a cluster's last answer about an application; nil: none.
func (r *reading) answer(c *cluster, id string) *ApplicationReport {
	if c == r.cluster {
		return r.answers[id]
	}
	return c.answers[id]
}

// how describes the end of an application that did not end well.
func (a *ApplicationReport) how() string {
	switch a.Failure {
	case "FAILED":
		return "failed"
	case "KILLED":
		return "was killed"
	}
	return "ended as " + a.Failure
}

// endReason returns the reason for the end of an allocation with its applications.
func (r *reading) endReason(e *entry) string {
	return cmp.Or(r.failure(e, true), r.neverSeen(e), "its application ended")
}

// moved returns the parts of an entry with one of them in another queue, sorted as parts are. It
// returns false if they are not valid together.
func (e *entry) moved(part int, path string) ([]resource.External, bool) {
	next := slices.Clone(e.Entitled.External)
	next[part].Path = path
	slices.SortFunc(next, func(a, b resource.External) int { return a.Compare(b.Address) })
	return next, resource.Resource{Vector: e.Entitled.Vector, External: next}.Validate() == nil
}

// movePart counts a part of an active entry in another queue of its cluster. next are the parts
// after the move. The ledger is taking in a report of that cluster, and has not counted the entry
// yet.
func (l *Ledger) movePart(e *entry, part int, next []resource.External) {
	x, before := e.external, e.Entitled.External
	c, set, charges := l.clusters[ClusterName{before[part].Kind, before[part].Cluster}], x.set, x.charges
	overhead, onHost := e.overhead(), e.hostBytes()
	l.unholdParts(e)
	var left, stay []queueCharge
	for i := range charges {
		if t := &charges[i]; t.queue.cluster == c {
			l.uncountCharge(e, t)
			left = append(left, *t)
		} else {
			stay = append(stay, *t)
		}
	}
	was := largest(&e.Entitled)
	e.Entitled.External = next
	l.countLargest(e, largest(&e.Entitled)-was)
	fresh := l.chargesOf(e, nil, func(of *cluster) bool { return of == c })
	for i := range fresh {
		e.countCharge(&fresh[i])
	}
	x.charges = sortedCharges(append(fresh, stay...))
	x.moveShown(e.ID, before, next, charges)
	x.eachCharge(c, func(_ int, t *queueCharge) {
		t.queue.account.exceeded = t.queue.account.exceeded || t.queue.account.overLimit()
		if e.updateShown(t, lastReading) {
			t.queue.updateOthers()
		}
	})
	l.joinPartSet(e)
	e.holdParts()
	for i := range x.set.limits {
		a := x.set.limits[i].account
		a.exceeded = a.exceeded || a.overLimit()
	}
	set.leave(e.accountSet)
	releaseCharges(left)
	e.share.reorder(&l.fleet)
	l.countCallerBytes(e, e.overhead()-overhead)
	l.countHostBytes(e, e.host, e.hostBytes()-onHost)
}

// moveShown puts the reports' figures for an entry in the order of its next parts and charges. For
// a moved part the reports had shown nothing in its new place.
func (x *external) moveShown(id ID, before, next []resource.External, charges []queueCharge) {
	moved := func(list []resource.Vector) []resource.Vector {
		after := make([]resource.Vector, len(next))
		for i := range next {
			if at := slices.IndexFunc(before, func(b resource.External) bool { return b.Address == next[i].Address }); at >= 0 {
				after[i] = list[at]
			}
		}
		return after
	}
	x.granted = moved(x.granted)
	for i := range x.memberships {
		n := x.memberships[i].cluster.reading.of(id)
		if n == nil {
			continue
		}
		shown := make([]resource.Vector, len(x.charges))
		for j := range x.charges {
			if at := slices.IndexFunc(charges, func(t queueCharge) bool { return t.queue == x.charges[j].queue }); at >= 0 {
				shown[j] = n.shown[at]
			}
		}
		n.granted, n.shown = moved(n.granted), shown
	}
}

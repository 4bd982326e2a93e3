package ledger

// Stamp says when a change was made, and by whom.
type Stamp struct {
	Time Instant
	// Actor is the name of the caller whose command made it, or "host:" and the id of the host
	// whose agent reported it. Empty: the ledger made it by itself.
	Actor string
}

// RevisionStamp is the stamp of the changes from one revision on, up to that of the next.
type RevisionStamp struct {
	From uint64
	Stamp
}

// ActAs sets the actor of the following commands; empty: none. Events that come due by themselves,
// and grants to waiting requests, are not the actor's.
func (l *Ledger) ActAs(actor string) { l.actor = actor }

// stamp is that of a change that is made now.
func (l *Ledger) stamp() Stamp {
	if l.early || l.admits {
		return Stamp{Time: l.now}
	}
	return Stamp{l.now, l.actor}
}

// stampRevision stamps the change with the present revision.
func (l *Ledger) stampRevision() {
	next := l.stamp()
	if n := len(l.changes.Stamps); n == 0 || l.changes.Stamps[n-1].Stamp != next {
		l.changes.Stamps = append(l.changes.Stamps, RevisionStamp{l.revision, next})
	}
}

// stampNamed stamps a change of a rule, or the removal of a host, in one of the maps of Changes.
func (l *Ledger) stampNamed(stamps *map[string]Stamp, name string) {
	if *stamps == nil {
		*stamps = make(map[string]Stamp)
	}
	(*stamps)[name] = l.stamp()
}

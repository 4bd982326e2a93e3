package ledger

// # Whose an application is
//
// Anybody may confirm an engine with the id of any application. So what a cluster says of the
// application's user decides in which allocation it counts, and which of them may follow it:
//
//   - It runs as the user that the label of the cluster's settings names (Terms.UserLabel): it is
//     the allocation's. Of several of this kind it counts in the oldest.
//   - It runs as another user, or the allocation does not have the label: it is not. It counts as
//     others', its queue and its end mean nothing to the allocation, and the reason says so.
//   - The cluster does not say whom it runs as, or the settings say that users are not known there:
//     nobody can tell. It counts in the oldest allocation that names it, where a part of that is,
//     but no part follows it. So who names another's application gets no more than who names none:
//     all of that one's parts count as seen after a while.
type owner struct {
	id    ID
	known bool // it runs as the user of the allocation
}

// before reports whether an application counts rather in this one.
func (o owner) before(other owner) bool {
	if o.known != other.known {
		return o.known
	}
	return other.id == 0 || o.id < other.id
}

// belonging is whose an application is.
type belonging int

const (
	untold  belonging = iota // nobody can tell
	itsOwn                   // of the allocation's user
	foreign                  // of another, or of an allocation that does not say its user
)

// belongs says whose an application is, by an answer of a cluster; nil: there is none.
func (e *entry) belongs(c *cluster, a *ApplicationReport) belonging {
	switch {
	case a == nil || a.User == "" || c.terms.UserLabel == "":
		return untold
	case c.userOf(&e.Allocation) == a.User:
		return itsOwn
	}
	return foreign
}

// addOwner counts an allocation among those that its applications may count in.
func (r *reading) addOwner(e *entry) {
	for _, id := range e.ApplicationIDs {
		whose := e.belongs(r.cluster, r.answers[id])
		if o := (owner{e.ID, whose == itsOwn}); whose != foreign && o.before(r.owners[id]) {
			r.owners[id] = o
		}
	}
}

// strange says of an application of another user that it counts nowhere here; empty: there is none.
// Who that is, and what it runs, is the other one's business.
func (r *reading) strange(e *entry) string {
	for _, id := range e.ApplicationIDs {
		if a := r.answers[id]; a == nil || !a.Known || a.Ended || e.belongs(r.cluster, a) != foreign {
			continue
		}
		if user := r.cluster.userOf(&e.Allocation); user != "" {
			return id + " does not run as " + user + ", so it counts as others'"
		}
		return id + " counts as others': the label " + r.cluster.terms.UserLabel + " would say whom it runs as"
	}
	return ""
}

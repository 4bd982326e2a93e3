package ledger

// # The owner of an application
//
// Anybody may confirm an engine with the id of any application. So the application's user, as the
// cluster reports it, decides in which allocation the application counts, and which of them may
// follow it:
//
//   - It runs as the user that the label of the cluster's settings names (Terms.UserLabel): it is
//     the allocation's. Of several such allocations it counts in the oldest.
//   - It runs as another user, or the allocation does not have the label: it is not the
//     allocation's. It counts as others' use, its queue and its end mean nothing to the allocation,
//     and the reason says so.
//   - The cluster does not report the user, or users are unknown by the settings: the owner is
//     unknown. It counts in the oldest allocation that names it, in a part where it runs, but no
//     part follows it. So a caller that names another's application gains nothing over one that
//     names none: all parts of the latter's allocation count as seen after a while.
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

// strange returns the reason for an application of another user, which counts nowhere here; empty
// if there is none. It does not disclose that user, or what the application does.
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

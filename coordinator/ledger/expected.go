package ledger

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Operators may cordon or drain a host before it comes, by its name. Its row in the table of hosts
// says that the host is expected. The ledger keeps expected hosts apart from the others: a request
// for one waits as for any host that is not there yet. When an agent registers the name, its host
// is new, and has the orders of the row.

// mostExpected bounds the expected hosts. Each has a row in the store and a place in lists.
const mostExpected = 10_000

// hostIDPattern is that of RegisterRequest.host_id.
var hostIDPattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._:-]{0,252}$`)

// expectedHost is a name with the orders for the host that will register with it.
type expectedHost struct {
	HostRecord

	timer timer // when its cordon ends by itself
}

func (l *Ledger) expectedPlace(id string) (int, bool) {
	return slices.BinarySearchFunc(l.expected, id, func(x *expectedHost, id string) int { return strings.Compare(x.ID, id) })
}

// addExpected takes in an expected host, or another row of one.
func (l *Ledger) addExpected(r HostRecord) *expectedHost {
	at, found := l.expectedPlace(r.ID)
	if !found {
		x := &expectedHost{}
		x.timer.owner = x
		l.expected = slices.Insert(l.expected, at, x)
	}
	l.expected[at].HostRecord = r
	return l.expected[at]
}

// dropExpected takes an expected host out of the tables, and returns its row. The caller records
// the row's deletion, or its next version.
func (l *Ledger) dropExpected(id string) (r HostRecord, found bool) {
	at, found := l.expectedPlace(id)
	if !found {
		return HostRecord{}, false
	}
	x := l.expected[at]
	l.timers.set(&x.timer, 0)
	delete(l.timed, &x.timer)
	l.expected = slices.Delete(l.expected, at, at+1)
	return x.HostRecord, true
}

// forgetExpected drops an expected host and its row.
func (l *Ledger) forgetExpected(id string) (r HostRecord, found bool) {
	if r, found = l.dropExpected(id); found {
		l.recordRemoved(id)
	}
	return r, found
}

// setExpectedTimer sets when the cordon of an expected host ends by itself.
func (l *Ledger) setExpectedTimer(x *expectedHost) {
	l.timers.set(&x.timer, x.CordonedUntil)
	if x.CordonedUntil > l.now || x.StopTime > l.now {
		l.timed[&x.timer] = struct{}{}
	} else {
		delete(l.timed, &x.timer)
	}
}

// closeExpected carries out an operator's order for a name that no host has registered with.
//
// Errors: *NotFoundError if there is nothing to end; *FieldError; *StateError if there are too many
// such names.
func (l *Ledger) closeExpected(id string, c closing) (HostInfo, error) {
	at, found := l.expectedPlace(id)
	switch {
	case !c.cordoned && !found:
		return HostInfo{}, &NotFoundError{What: "host", ID: id}
	case !c.cordoned:
		r, _ := l.forgetExpected(id)
		r.close(l.now, c)
		return expectedInfo(&r), nil
	}
	r := HostRecord{ID: id, Expected: true}
	switch {
	case found:
		r = l.expected[at].HostRecord
	case !hostIDPattern.MatchString(id):
		return HostInfo{}, &FieldError{"host_id", validText(id), "a name that an agent can register: a letter or digit, then at most 252 letters, digits, dots, colons, hyphens and underscores"}
	case len(l.expected) >= mostExpected:
		return HostInfo{}, &StateError{"host", id, fmt.Sprintf("not here yet, as %d hosts are that are cordoned by name", len(l.expected)), "a host that has registered, or fewer such names (uncordon ends one)"}
	}
	r.close(l.now, c)
	x := l.addExpected(r)
	l.recordRow(&x.HostRecord)
	l.setExpectedTimer(x)
	return expectedInfo(&x.HostRecord), nil
}

// newHost is the row of a host that registers for the first time.
func (l *Ledger) newHost(id string) HostRecord {
	r, found := l.dropExpected(id)
	if !found {
		r = HostRecord{ID: id}
	}
	if l.cfg.JoinCordoned && !r.Cordoned {
		r.Cordoned, r.Reason = true, "new hosts join cordoned (joinCordoned)"
	}
	r.Registered, r.Expected = l.now, false
	return r
}

// expectedInfo is an expected host as readers see it.
func expectedInfo(r *HostRecord) HostInfo {
	info := HostInfo{HostRecord: *r, State: ExpectedHost, Account: AccountInfo{Name: hostName(r.ID)}, Unavailable: "no agent has registered yet"}
	switch {
	case r.Draining:
		info.Unavailable += "; " + withReason("draining", r.MutedReason())
	case r.Cordoned:
		info.Unavailable += "; " + withReason("cordoned", r.MutedReason())
	}
	return info
}

// settleExpected moves the times of expected hosts after a load, and ends the cordons that are
// over by now.
func (l *Ledger) settleExpected() {
	for _, x := range slices.Clone(l.expected) {
		x.StopTime, x.CordonedUntil = l.outages.moved(x.StopTime, x.Revision), l.outages.moved(x.CordonedUntil, x.Revision)
		if x.CordonedUntil != 0 && x.CordonedUntil <= l.now {
			l.forgetExpected(x.ID)
			continue
		}
		l.setExpectedTimer(x)
	}
}

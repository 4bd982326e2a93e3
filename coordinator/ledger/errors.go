package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// Kind says what kind of thing an account limits.
type Kind uint8

// The kinds of accounts.
const (
	HostAccount Kind = iota + 1
	QuotaAccount
	QueueAccount
)

func (k Kind) String() string {
	switch k {
	case HostAccount:
		return "host"
	case QuotaAccount:
		return "quota"
	case QueueAccount:
		return "queue"
	default:
		return "unknown"
	}
}

// AccountName identifies an account: a host by {host=ID}, a quota by its scope's keys and values, a
// queue by its kind, cluster, path and, if it is not the default one, partition.
type AccountName struct {
	Kind   Kind
	Labels label.Set
	// External is, of a quota's account for external parts, which parts count in it: the address of
	// the entry in the rule. nil: the account is not for external parts.
	External *resource.Address
}

// OfParts reports whether external parts count in the account: it is a queue, or a quota's account
// for external parts.
func (n AccountName) OfParts() bool {
	return n.Kind == QueueAccount || n.External != nil
}

// Equal reports whether both name the same account.
func (n AccountName) Equal(other AccountName) bool {
	same := n.External == other.External || n.External != nil && other.External != nil && *n.External == *other.External
	return same && n.Kind == other.Kind && n.Labels.Equal(other.Labels)
}

func (n AccountName) String() string {
	of := n.Labels.Text()
	switch {
	case n.Kind == HostAccount:
		of = n.Labels.Value(hostKey)
	case n.Kind == QueueAccount:
		of = resource.Address{
			Kind: n.Labels.Value(kindKey), Cluster: n.Labels.Value(label.Cluster),
			Path: n.Labels.Value(pathKey), Partition: n.Labels.Value(partitionKey),
		}.String()
		if user := n.Labels.Value(userKey); user != "" {
			of += " user " + user
		}
	case len(n.Labels) == 0:
		of = "(all)"
	}
	if n.External != nil {
		of += " in " + n.External.String()
	}
	return n.Kind.String() + " " + of
}

// hostKey is the key in the name of a host's account.
const hostKey = "host"

func hostName(id string) AccountName {
	return AccountName{Kind: HostAccount, Labels: label.Set{{Key: hostKey, Value: id}}}
}

// Note is why an account is short if its numbers alone do not say it.
type Note string

// The notes.
const (
	NoteMeasured Note = "measured"  // the account would allow it, the machine does not
	NoteHeld     Note = "held"      // held for a request that waits longer
	NoteUnknown  Note = "unknown"   // no fresh measurement; for a queue: no fresh report of its cluster
	NotePressure Note = "pressure"  // the host is under memory pressure
	NoteRefused  Note = "refused"   // the agent wants no new grants, or its answer has no room for more
	NoteHealth   Note = "health"    // the host is suspect, lost or returning
	NoteCordoned Note = "cordoned"  // operators keep new engines off the host
	NoteDraining Note = "draining"  // likewise, and those there are to end
	NoteNever    Note = "never"     // above the limit: it can never fit
	NoteLabels   Note = "labels"    // the host that was asked for has lost a required label
	NoteStopped  Note = "stopped"   // the queue takes no applications
	NoteMissing  Note = "missing"   // the cluster does not have the queue; the host has none of what it declares, or is not there yet
	NoteTooSmall Note = "too small" // no host is that large yet; this one is the largest that is there
	NoteMayGrow  Note = "may grow"  // above the limit of the queue today, which grows with its cluster
	NoteHeldBack Note = "held back" // the cluster does not start what waits in the queue already
)

// Shortfall is the amount that one account lacks for a request, in one dimension.
type Shortfall struct {
	Account   AccountName
	Dimension string
	Requested int64
	Available int64
	Limit     int64
	Note      Note
	Detail    string // the note in full; empty if the note says everything
	// Largest is, with NoteNever, the most that a request may ask for in the dimension: the limit,
	// or less if a rule would round that up, or the limit that a queue may get. With NoteMayGrow it
	// is the limit that the queue may get, too.
	Largest int64
}

func (s Shortfall) String() string {
	text := fmt.Sprintf("%s: %s: requested %d, available %d, limit %d", s.Account, s.Dimension, s.Requested, s.Available, s.Limit)
	switch {
	case s.Note == "":
		return text
	case s.Detail == "":
		return text + " (" + string(s.Note) + ")"
	default:
		return text + " (" + string(s.Note) + ": " + s.Detail + ")"
	}
}

// Reasons of an InsufficientError.
const (
	ReasonRefused = "refused" // did not want to wait
	ReasonWaited  = "waited"  // the wait is over
	ReasonVetoed  = "vetoed"  // the agent found less than it had reported
	ReasonNever   = "never"   // it could not fit even if everything else ended
)

// InsufficientError refuses a request for lack of resources, with every account that fell short.
type InsufficientError struct {
	Shortfalls []Shortfall
	Filters    *HostFilters // if no host was named
	Reason     string
	Runners    []Runners // that stood in the way, if it waited and was starved
	// Never says that the request could not be granted even if everything else ended: the limit of
	// a quota, the host that was named, or the maximum of a queue is smaller. Else it may be
	// granted later, also if no host is there yet, or none that large.
	Never bool
	// Returning says that it is too early to refuse: nothing that is known blocks the request, and
	// a host that it may go to has not reported since the ledger was loaded, or a cluster has not
	// been read.
	Returning bool
}

// Explain copies the findings of an explanation of the request.
func (e *InsufficientError) Explain(why *Explanation) {
	e.Shortfalls, e.Filters, e.Runners, e.Never = why.Shortfalls, why.Filters, why.Runners, why.Verdict == Never
}

func (e *InsufficientError) Error() string {
	parts := make([]string, 0, len(e.Shortfalls)+1)
	for _, s := range e.Shortfalls {
		parts = append(parts, s.String())
	}
	if e.Filters != nil {
		parts = append(parts, e.Filters.String())
	}
	text := "insufficient resources (" + e.Reason + ")"
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, "; ")
	}
	if e.Returning {
		if slices.ContainsFunc(e.Shortfalls, func(s Shortfall) bool { return s.Account.Kind == QueueAccount }) {
			return "external clusters have not been read yet: try again; until then: " + text
		}
		return "hosts have not reported yet since this coordinator began to lead: try again; until then: " + text
	}
	return text
}

// FieldError refuses a command for one bad field.
type FieldError struct {
	Field, Value, Want string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %q: want %s", e.Field, e.Value, e.Want)
}

// outOfRange returns the error of a resource's check with the path of the field that holds the
// resource.
func outOfRange(path string, err error) error {
	wrong, ok := errors.AsType[*resource.FieldError](err)
	if !ok {
		return err
	}
	return &FieldError{path + "." + wrong.Field, wrong.Value, wrong.Want}
}

// NotFoundError says that there is no such thing.
type NotFoundError struct {
	What, ID string
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("no such %s: %q", e.What, e.ID) }

// StateError refuses a command that the thing's state does not allow.
type StateError struct {
	What, ID, State, Want string
}

func (e *StateError) Error() string {
	return fmt.Sprintf("%s %s is %s: want %s", e.What, e.ID, e.State, e.Want)
}

// RestoreError says which row of a Snapshot keeps a ledger from being restored.
type RestoreError struct {
	// What is "allocation" or "provider", and ID an allocation's id, or a provider's
	// "kind:cluster".
	What, ID string
	Err      error
}

func (e *RestoreError) Error() string { return fmt.Sprintf("%s %s: %v", e.What, e.ID, e.Err) }

// Unwrap returns the fault of the row.
func (e *RestoreError) Unwrap() error { return e.Err }

func unrestored(id ID, format string, args ...any) error {
	return &RestoreError{"allocation", id.String(), fmt.Errorf(format, args...)}
}

// ConflictError refuses another request under a request id that is taken.
type ConflictError struct {
	RequestID string
	ID        ID
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("request_id: %q: already used for allocation %s with another request: want a new request_id", e.RequestID, e.ID)
}

// DeniedError refuses a command that the actor may not give.
type DeniedError struct {
	Actor, Wanted string
	// Instead names the actions that the actor may do; empty if the ledger does not know.
	Instead string
}

func (e *DeniedError) Error() string {
	text := fmt.Sprintf("%s may not %s", e.Actor, e.Wanted)
	if e.Instead != "" {
		text += ": want " + e.Instead
	}
	return text
}

// mostNamed is how many users an error names.
const mostNamed = 3

// notAs refuses a request for a user that the actor may not act as. The error names those that it
// may act as, and if no user is named, how to name one.
func notAs(actor *identity.Actor, user string) error {
	denied := &DeniedError{Actor: actor.Name, Wanted: fmt.Sprintf("act as user %q", user)}
	own := strings.Join(actor.Users[:min(len(actor.Users), mostNamed)], ", ")
	if len(actor.Users) > mostNamed {
		own += ", …"
	}
	if user != "" {
		if own != "" {
			denied.Wanted += ", only as " + own
		}
		return denied
	}
	denied.Wanted = "allocate for no user"
	switch len(actor.Users) {
	case 0:
		denied.Instead = "the label user (--label user=NAME), and a caller that may act as that user"
	case 1:
		denied.Instead = fmt.Sprintf("the label user=%s (--label user=%s)", own, own)
	default:
		denied.Instead = "the label user (--label user=NAME) with one of " + own
	}
	return denied
}

// StaleError refuses a report from an older incarnation, sequence or epoch than one that was
// already accepted.
type StaleError struct {
	Host, What string
	Got, Have  uint64
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("host %s: %s %d is older than %d", e.Host, e.What, e.Got, e.Have)
}

// Package providers says what an external system must offer for its queues to become accounts: a
// way to read them. One kind of system is one package below this one, such as yarn; a coordinator
// is given the kinds that it shall know.
//
// A Provider only reads: it keeps no timer, and its caller decides about age. Its methods may be
// called from any goroutine, one after another.
package providers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bursar/bursar/resource"
)

// Kind is one sort of external system.
type Kind interface {
	// Name is what addresses carry, such as "yarn".
	Name() string
	// Check looks at settings without asking anybody and without opening a file. The error is a
	// *SettingError.
	Check(settings map[string]string) error
	// Files are the names of those settings that are paths of files to read: what comes over the
	// network may not name any file.
	Files() []string
	// Open makes a provider for a cluster. It reads the files that the settings name, and makes no
	// call. Errors: *SettingError.
	Open(cluster string, settings map[string]string) (Provider, error)
}

// FileOnly is a Kind whose providers do something on the coordinator's machine, such as to run a
// command. They come from the coordinator's file of providers alone: nobody may say over the API,
// or in the store, what this machine does.
type FileOnly interface {
	Kind
	// FileOnly does nothing.
	FileOnly()
}

// Local is a Kind some of whose settings are about the machine that a coordinator runs on.
type Local interface {
	Kind
	// CheckHere looks at this machine for what settings name that does not come by itself, such as
	// a user, and makes no call. Check lets the settings pass. The error is a *SettingError.
	CheckHere(settings map[string]string) error
}

// WantFile says what would be right if a provider of a FileOnly kind comes from elsewhere.
const WantFile = "a kind that may be set over the API; this one is for the coordinators' file of providers (providersFile) alone"

// FullPaths is a Kind whose queues are named in requests by their full paths alone, as Queue.Path
// has them. So it is plain which queue is meant before the cluster was ever read, and a request can
// wait for that. A queue of another kind may be named by the last element of its path as well, and
// only a path that begins with "root" is known to be full.
type FullPaths interface {
	Kind
	// FullPaths does nothing.
	FullPaths()
}

// Provider reads one cluster.
type Provider interface {
	// Snapshot reads every queue. Errors: *UnavailableError, and others if the answer makes no
	// sense.
	Snapshot(ctx context.Context) (Snapshot, error)
	// Applications asks for applications one by one. It returns those that were answered, in any
	// order, with those that the cluster does not know. One that can ask for some alone begins with
	// the first ids. If ctx ends or a failure comes before all were asked for, it returns what it
	// has with the error.
	Applications(ctx context.Context, ids []string) ([]Application, error)
	// Servers asks every server of the cluster what it is, for a person who checks the
	// configuration.
	Servers(ctx context.Context) []Server
	// Close ends what the provider keeps open.
	Close() error
}

// Counted is a Provider that sends requests to servers.
type Counted interface {
	Provider
	// Requests is how many it has sent since it was opened, whatever came of them.
	Requests() int64
}

// Snapshot is all queues of a cluster at one moment.
type Snapshot struct {
	// Server is the address of the server that answered.
	Server string
	// Incarnation changes when the cluster was restarted or failed over, so that what it said
	// before need not hold.
	Incarnation string
	// Untrusted says why the figures are not to be counted on yet, such as no machine of the
	// cluster having reported since a failover; empty if they are.
	Untrusted string
	// Doubts says which figures make no sense, so that they do not count as they are; empty: there
	// are none.
	Doubts string
	// Queues are in any order, the ones above before or after those below.
	Queues []Queue
	// Unaddressable are the first queues of the cluster that no request can name, at most
	// MostUnaddressable, and MoreUnaddressable is how many there are in addition. What they have
	// counts in the queues above.
	Unaddressable     []Unaddressable
	MoreUnaddressable int
}

// MostUnaddressable bounds how many unaddressable queues of a cluster are told one by one.
const MostUnaddressable = 32

// Unaddressable is a queue of a cluster that no request can name.
type Unaddressable struct {
	// Name is the last name of its path, in double quotes and escaped, at most 160 bytes. It is to
	// be shown and not to be compared.
	Name string
	// Parent is the path of the queue above, Partition the node label.
	Parent, Partition string
	// Reason says why no request can name the queue.
	Reason string
}

// Queue is one queue in one partition of its cluster.
type Queue struct {
	// Path is the full path; Parent that of the queue above, empty for the root.
	Path, Parent string
	// Partition is the node label; empty: the default partition.
	Partition string
	// Limit is the most it may have: bytes, millicores, custom countables in their base unit. A
	// dimension that is not listed is not limited. A custom countable that is not listed is zero.
	Limit resource.Vector
	// Used is what its applications hold, what is set aside for them included.
	//
	// Both may have the dimensions of applications (resource.OfApplications): what their masters
	// have of memory and cpu, and how many there may be at the same time, those that wait to start
	// included. Of these a limit that is not listed is not known.
	Used resource.Vector
	// Users are what users have in this very queue, each once, in any order. UserLimit is the most
	// that a user may have who is not among them. A dimension that is not listed in a limit is not
	// limited, or its limit is not known.
	Users     []User
	UserLimit resource.Vector
	// FirstIsFree says that an application may start whatever its master takes, if no other master
	// runs in the queue.
	FirstIsFree bool
	// Division says what masters may have if that moves with which queues are active, and
	// ChildDivision that of a queue below it that is made by using it. Nil: it does not.
	Division, ChildDivision *Division
	// LargestContainer is the most that one container may have, in memory and cpu, so that a master
	// which takes more never starts. What is not listed is not known.
	LargestContainer resource.Vector
	// NotEnforced are the dimensions that the cluster does not look at here: so many of them can be
	// used as there are. Estimated are the dimensions of Limit that it does not tell, or only as of
	// an earlier time.
	NotEnforced, Estimated []string
	// UserPercent is the share of the queue that a user is sure of while others want more, in
	// percent; nil: there is no such limit below that of Users and UserLimit, or it is not known.
	UserPercent *float64
	// MayGrow is what Limit may become if the cluster grows, in the dimensions in which it may;
	// UsersMayGrow is that of UserLimit and of the limits of Users.
	MayGrow, UsersMayGrow resource.Vector
	// HeldBack is how many applications wait to start although the queue has room for them, and
	// HeldBackBy why, as far as it is known.
	HeldBack   int32
	HeldBackBy string
	// Guaranteed is what the cluster promises it.
	Guaranteed resource.Vector
	// State is the cluster's word for it; Closed says that it takes no new applications.
	State  string
	Closed bool
	// CreatesChildren says that a queue below it need not be there: using it makes it.
	CreatesChildren bool
	// CreatesBelow are full paths of parents below it that need not be there, nor those between:
	// using a queue below one of them makes them. They take no applications themselves.
	CreatesBelow []string
	// LeavesOnly says that it takes no applications itself: the queues below it do.
	LeavesOnly bool
	// DefaultPartition is the partition of an application that names none.
	DefaultPartition string
	// AbsoluteCapacity and AbsoluteMaxCapacity are the shares of the cluster that it is promised
	// and may have, in percent. Nil: not known.
	AbsoluteCapacity, AbsoluteMaxCapacity *float64
	// Counts of applications. Nil: not known. Active ones have got their first container, pending
	// ones have not.
	Applications, Pending, Active, MaxApplications *int32
}

// Division is how a queue takes part when what the queue above has is divided among those below it
// that are active: in which an application runs or waits to run. The first application in one queue
// makes the shares of the others smaller, and with these what masters may have there.
type Division struct {
	// Divided are the dimensions that are divided, of memory and cpu. What is not divided is what
	// nobody uses in the whole cluster.
	Divided []string
	// Weight is its weight among the queues beside it, at most, and LeastWeight at least. A share
	// is as large as Weight says, but no less than Least and no more than Most. Those of the root
	// are what there is. What Most does not list does not limit masters.
	Weight, LeastWeight int64
	Least, Most         resource.Vector
	// Masters is the portion of the share that masters may have, rounded up to a multiple of Step;
	// 0: they are not limited. Shares are rounded down to it.
	Masters float64
	Step    resource.Vector
}

// User is what a user of the cluster has in one queue: the most that it may be, and what all its
// applications hold.
type User struct {
	Name        string
	Limit, Used resource.Vector
}

// Terms is what the settings of a cluster say of requests for it.
type Terms struct {
	// Application is what each part of a request counts as if it does not say these itself:
	// dimensions of applications (resource.OfApplications).
	Application resource.Vector
	// UserLabel is the label of a request whose value is the user that its application runs as.
	// Empty: that is not known.
	UserLabel string
	// Container is how the cluster rounds the container of a master, in memory and cpu.
	Container resource.Normalization
	// AwaitStarts says that nothing is granted in a queue in which the cluster holds applications
	// back.
	AwaitStarts bool
}

// Termed is a Kind whose settings say something of requests.
type Termed interface {
	Kind
	// Terms returns what settings say that Check lets pass.
	Terms(settings map[string]string) Terms
}

// Application is what became of an application.
type Application struct {
	ID string
	// Known is false if the cluster has no such application.
	Known bool
	// Ended says that it is over: finished, failed or killed.
	Ended bool
	// Failure is FAILED or KILLED if it ended without success, and Diagnostics why, in the
	// cluster's words. Empty: it did not, or that is not known.
	Failure, Diagnostics string
	// Queue is the queue that it runs in: a full path, or a leaf if the cluster says no more.
	Queue string
	// User is whom it runs as. Empty: the cluster does not say it. Then no part of an allocation
	// follows it to another queue.
	User string
	// Allocated is what it holds now, by partition. If the cluster does not tell them apart there
	// is one entry, with AnyPartition.
	Allocated map[string]resource.Vector
}

// AnyPartition stands for the one partition that an application runs in, if the cluster does not
// say which. No node label can have this name.
const AnyPartition = "*"

// Server is what one server of a cluster says it is.
type Server struct {
	Address string
	// Role is "active" or "standby"; empty if it did not say.
	Role    string
	Version string
	Took    time.Duration
	Err     error
}

// UnavailableError says that a cluster cannot be read at the moment.
type UnavailableError struct {
	// NoneActive says that servers answered and none of them is in charge: nothing that was read
	// before holds any longer.
	NoneActive bool
	// Answered says that some server gave an answer, if not the one that was wanted, or was not
	// asked. So nobody can say that none answers.
	Answered bool
	Err      error
}

func (e *UnavailableError) Error() string {
	switch {
	case e.NoneActive:
		return fmt.Sprintf("no active server: %v", e.Err)
	case e.Answered:
		return fmt.Sprintf("no server can be read: %v", e.Err)
	}
	return fmt.Sprintf("no server answers: %v", e.Err)
}

// Unwrap returns what was wrong with the servers.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Hidden stands in errors for what may be a secret.
const Hidden = "***"

// SettingError refuses one setting.
type SettingError struct {
	// Setting is its name, Value what was given, with Hidden in place of what may be a secret,
	// Want what would be right.
	Setting, Value, Want string
}

func (e *SettingError) Error() string {
	return fmt.Sprintf("settings[%s]: %q: want %s", e.Setting, e.Value, e.Want)
}

// Secret reports whether the given value may hold a secret, so that its place in a file is not to
// be shown.
func (e *SettingError) Secret() bool { return strings.Contains(e.Value, Hidden) }

// Unavailable reports whether an error says that a cluster cannot be read at the moment, and
// whether that is for want of an active server.
func Unavailable(err error) (unavailable, noneActive bool) {
	e, ok := errors.AsType[*UnavailableError](err)
	return ok, ok && e.NoneActive
}

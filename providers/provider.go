// Package providers defines the interface to an external system whose queues become accounts. Each
// kind of system has its own package below this one, such as yarn. A coordinator gets the list of
// the kinds that it supports.
//
// A Provider only reads. It has no timer; its caller decides how old a reading may be. Its methods
// may be called from any goroutine, one call at a time.
package providers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bursar/bursar/resource"
)

// Kind is one type of external system.
type Kind interface {
	// Name is the kind's name in addresses, such as "yarn".
	Name() string
	// Check validates settings without network calls and without opening a file. The error is a
	// *SettingError.
	Check(settings map[string]string) error
	// Files returns the names of the settings that hold paths of files to read. The API refuses
	// these settings, because a remote caller may not choose files.
	Files() []string
	// Open makes a provider for a cluster. It reads the files that the settings name, and makes no
	// network call. Errors: *SettingError.
	Open(cluster string, settings map[string]string) (Provider, error)
}

// FileOnly is a Kind whose providers act on the coordinator's machine, for example run a command.
// Only the coordinator's providers file may configure them: neither the API nor the store may
// decide what this machine runs.
type FileOnly interface {
	Kind
	// FileOnly does nothing; it marks the kind.
	FileOnly()
}

// Local is a Kind with settings that refer to the coordinator's own machine.
type Local interface {
	Kind
	// CheckHere checks that this machine has the objects that the settings name, such as a user, if
	// waiting cannot make them appear. It makes no network call. The settings have passed Check.
	// The error is a *SettingError.
	CheckHere(settings map[string]string) error
}

// WantFile is the Want text for a FileOnly kind that does not come from the providers file.
const WantFile = "a kind that may be set over the API; this one is for the coordinators' file of providers (providersFile) alone"

// FullPaths is a Kind whose queues requests name only by their full paths, as in Queue.Path. The
// name of a queue is therefore unambiguous before the first reading of the cluster, and a request
// can wait for that reading. A request may name a queue of another kind also by the last element of
// its path, and only a path that begins with "root" is known to be full.
type FullPaths interface {
	Kind
	// FullPaths does nothing; it marks the kind.
	FullPaths()
}

// Provider reads one cluster.
type Provider interface {
	// Snapshot reads every queue. Errors: *UnavailableError, and others if the answer is malformed.
	Snapshot(ctx context.Context) (Snapshot, error)
	// Applications looks up applications by id. It returns the applications that the cluster
	// answered for, in any order, including those that the cluster does not know. A provider that
	// can look up single applications begins with the first ids. If ctx ends or a call fails before
	// the last id, it returns the applications so far, and the error.
	Applications(ctx context.Context, ids []string) ([]Application, error)
	// Servers asks every server of the cluster for its role and version, so that an operator can
	// check the configuration.
	Servers(ctx context.Context) []Server
	// Close releases the provider's connections and files.
	Close() error
}

// Counted is a Provider that sends requests to servers.
type Counted interface {
	Provider
	// Requests returns the number of requests sent since Open, including failed ones.
	Requests() int64
}

// Snapshot is all queues of a cluster at one moment.
type Snapshot struct {
	// Server is the address of the server that answered.
	Server string
	// Incarnation changes when the cluster restarts or fails over; earlier readings may then be
	// obsolete.
	Incarnation string
	// Untrusted is the reason why the figures are not reliable yet, for example that no machine of
	// the cluster has reported since a failover. Empty: they are reliable.
	Untrusted string
	// Doubts names the figures that are implausible and were not taken as they are. Empty: none.
	Doubts string
	// Queues are in any order; a parent may come before or after its children.
	Queues []Queue
	// Unaddressable lists the first queues of the cluster that no request can name, at most
	// MostUnaddressable. MoreUnaddressable is the number of further ones. Their use counts in the
	// queues above them.
	Unaddressable     []Unaddressable
	MoreUnaddressable int
}

// MostUnaddressable is the largest number of unaddressable queues that a snapshot lists.
const MostUnaddressable = 32

// Unaddressable is a queue of a cluster that no request can name.
type Unaddressable struct {
	// Name is the last element of the queue's path, in double quotes and escaped, at most 160
	// bytes. It is for display; do not compare it.
	Name string
	// Parent is the path of the queue above; Partition is the node label.
	Parent, Partition string
	// Reason is why no request can name the queue.
	Reason string
}

// Queue is one queue in one partition of its cluster.
type Queue struct {
	// Path is the full path. Parent is the path of the queue above, empty for the root.
	Path, Parent string
	// Partition is the node label; empty for the default partition.
	Partition string
	// Limit is the queue's maximum: bytes, millicores, custom countables in their base unit. An
	// absent dimension is not limited, but an absent custom countable is zero.
	Limit resource.Vector
	// Used is the total that the queue's applications hold or have reserved.
	//
	// Limit and Used may have the dimensions of applications (resource.OfApplications): the memory
	// and cpu of application masters, and the number of applications at the same time, including
	// those that wait to start. For these dimensions, an absent limit is unknown.
	Used resource.Vector
	// Users lists the users of this queue, each once, in any order. UserLimit is the maximum for
	// any user who is not in the list. A dimension that is absent from a limit is not limited, or
	// its limit is unknown.
	Users     []User
	UserLimit resource.Vector
	// FirstIsFree says that an application may start with a master of any size while no other
	// master runs in the queue.
	FirstIsFree bool
	// Division describes the limit of the masters if this limit changes with the set of active
	// queues. ChildDivision describes it for a child queue that the cluster creates on first use.
	// Nil: the limit does not change in this way.
	Division, ChildDivision *Division
	// LargestContainer is the maximum of one container, in memory and cpu: a larger master never
	// starts. An absent dimension is unknown.
	LargestContainer resource.Vector
	// NotEnforced lists the dimensions that the cluster does not check here: applications can use
	// as much of them as the cluster has. Estimated lists the dimensions of Limit that the cluster
	// does not report, or that come from an earlier reading.
	NotEnforced, Estimated []string
	// UserPercent is the share of the queue, in percent, that each user is guaranteed while other
	// users want more. Nil: there is no such guarantee below the limits in Users and UserLimit, or
	// it is unknown.
	UserPercent *float64
	// MayGrow holds the dimensions of Limit that grow if the cluster grows, with their future
	// values. UsersMayGrow is the same for UserLimit and for the limits of Users.
	MayGrow, UsersMayGrow resource.Vector
	// HeldBack is the number of applications that wait to start although the queue has room for
	// them. HeldBackBy is the reason, as far as it is known.
	HeldBack   int32
	HeldBackBy string
	// Guaranteed is the share that the cluster guarantees to the queue.
	Guaranteed resource.Vector
	// State is the cluster's own word. Closed says that the queue takes no new applications.
	State  string
	Closed bool
	// CreatesChildren says that the cluster creates missing child queues on first use.
	CreatesChildren bool
	// CreatesBelow lists the full paths of possible parent queues below this one. The cluster
	// creates them, and the queues in between, when an application uses a queue below them. They
	// take no applications themselves.
	CreatesBelow []string
	// LeavesOnly says that only the queues below this one take applications.
	LeavesOnly bool
	// DefaultPartition is the partition of an application that names none.
	DefaultPartition string
	// AbsoluteCapacity and AbsoluteMaxCapacity are the queue's guaranteed and maximum shares of the
	// cluster, in percent. Nil: unknown.
	AbsoluteCapacity, AbsoluteMaxCapacity *float64
	// Counts of applications. Nil: unknown. An active application has its first container; a
	// pending one has none yet.
	Applications, Pending, Active, MaxApplications *int32
}

// Division describes a queue's part when the cluster divides the resources of a parent among its
// active child queues. A queue is active if an application runs or waits to run in it. The first
// application in one queue makes the shares of the other queues smaller, and with them the limits
// of their masters.
type Division struct {
	// Divided lists the divided dimensions, of memory and cpu. For any other dimension, the share
	// is the unused part of the whole cluster.
	Divided []string
	// Weight and LeastWeight are the largest and smallest weight of the queue among its siblings.
	// Weight sets the share, but the share is never below Least or above Most. For the root, they
	// are the size of the cluster. A dimension that is absent from Most does not limit masters.
	Weight, LeastWeight int64
	Least, Most         resource.Vector
	// Masters is the fraction of the share that masters may use, rounded up to a multiple of Step;
	// 0: masters are not limited. Shares are rounded down to a multiple of Step.
	Masters float64
	Step    resource.Vector
}

// User is one user's limit in one queue, and the total that the user's applications hold there.
type User struct {
	Name        string
	Limit, Used resource.Vector
}

// Terms holds the rules for requests in the settings of a cluster.
type Terms struct {
	// Application is the default for each part of a request, in the dimensions of applications
	// (resource.OfApplications).
	Application resource.Vector
	// UserLabel is the key of the request label whose value is the user that the application runs
	// as. Empty: users are unknown.
	UserLabel string
	// Container is how the cluster rounds the container of a master, in memory and cpu.
	Container resource.Normalization
	// AwaitStarts says that the coordinator grants nothing in a queue while the cluster holds
	// applications back there.
	AwaitStarts bool
}

// Termed is a Kind whose settings define Terms.
type Termed interface {
	Kind
	// Terms returns the terms in settings that Check accepts.
	Terms(settings map[string]string) Terms
}

// Application is the state of one application in the cluster.
type Application struct {
	ID string
	// Known is false if the cluster has no such application.
	Known bool
	// Ended says that the application has finished, failed or been killed.
	Ended bool
	// Failure is FAILED or KILLED if the application ended without success, and Diagnostics is the
	// cluster's explanation. Both are empty after success, or if the result is unknown.
	Failure, Diagnostics string
	// Queue is the application's queue: a full path, or only the leaf if the cluster reports no
	// more.
	Queue string
	// User is the user that the application runs as. Empty: the cluster does not report it. Then no
	// part of an allocation follows the application to another queue.
	User string
	// Allocated holds the application's present resources, by partition. If the cluster does not
	// distinguish partitions, there is one entry, with AnyPartition.
	Allocated map[string]resource.Vector
}

// AnyPartition stands for the single partition of an application if the cluster does not report
// which one it is. No node label can have this name.
const AnyPartition = "*"

// Server is the report of one server of a cluster.
type Server struct {
	Address string
	// Role is "active" or "standby"; empty if the server did not report it.
	Role    string
	Version string
	Took    time.Duration
	Err     error
}

// UnavailableError reports that a cluster cannot be read at the moment.
type UnavailableError struct {
	// NoneActive says that servers answered but none of them is active. Every earlier reading is
	// then obsolete.
	NoneActive bool
	// Answered says that at least one server answered, although not with a usable answer, or was
	// not asked. The error text must then not claim that no server answers.
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

// Unwrap returns the errors of the servers.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Hidden replaces a possible secret in errors.
const Hidden = "***"

// SettingError rejects one setting.
type SettingError struct {
	// Setting is the setting's name. Value is the given value, with Hidden in place of a possible
	// secret. Want describes a valid value.
	Setting, Value, Want string
}

func (e *SettingError) Error() string {
	return fmt.Sprintf("settings[%s]: %q: want %s", e.Setting, e.Value, e.Want)
}

// Secret reports whether the given value may hold a secret. A caller must then not show the lines
// of the file around it.
func (e *SettingError) Secret() bool { return strings.Contains(e.Value, Hidden) }

// Unavailable reports whether an error means that a cluster cannot be read at the moment, and
// whether the reason is that no server is active.
func Unavailable(err error) (unavailable, noneActive bool) {
	e, ok := errors.AsType[*UnavailableError](err)
	return ok, ok && e.NoneActive
}

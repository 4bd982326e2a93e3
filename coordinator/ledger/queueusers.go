package ledger

import (
	"cmp"
	"slices"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// A cluster may limit one user's use of a queue, and the resources of application masters. For the
// first limit each user has an account next to the queue's: a cluster queue that counts the user's
// allocations in this queue itself. The second limit is a dimension of these accounts. So the
// ledger counts, reads, waits for and explains both like everything else in a queue.

// QueueUsers is a cluster's report of users in a queue.
type QueueUsers struct {
	// Listed are by name, each once.
	Listed []UserReport
	// Limit is the limit of users who are not listed.
	Limit resource.Vector
}

// UserReport is a cluster's report of one user in a queue.
type UserReport struct {
	User string
	// Limit is the most that the user may have. A dimension that it does not list is not limited.
	// Used is the use of all applications of the user.
	Limit, Used resource.Vector
}

// Terms are a provider's settings for requests to its cluster.
type Terms struct {
	// Application is the default size of an application for parts without one: resource.AMMemory
	// and resource.AMCPU, but no more than the part's memory and cpu, and resource.Applications.
	Application resource.Vector
	// UserLabel is the label whose value is the user in the cluster. Empty: the users are unknown.
	UserLabel string
	// Container is how the cluster rounds the container of a master, in memory and cpu.
	Container resource.Normalization
	// AwaitStarts says that a queue gets no grants while the cluster does not start its waiting
	// applications although it has room: see HeldBack.
	AwaitStarts bool
}

// termed adds the settings' application size to a part.
func (t *Terms) termed(v resource.Vector) resource.Vector {
	if v.IsZero() {
		return v
	}
	whole := v
	for dimension, n := range t.Application.All() {
		if v.Has(dimension) {
			continue
		}
		for _, d := range masterDimensions {
			if most, has := whole.Get(d.whole); has && dimension == d.master {
				n = min(n, most)
			}
		}
		v = v.With(dimension, n)
	}
	return t.rounded(v)
}

// masterDimensions are the dimensions of masters, each with the dimension that it is a part of.
var masterDimensions = [...]struct{ master, whole string }{{resource.AMMemory, resource.Memory}, {resource.AMCPU, resource.CPU}}

// rounded raises the master of a part to the size of its container in the cluster, and the part to
// its master. A master that the cluster would refuse as too large stays as it is.
func (t *Terms) rounded(v resource.Vector) resource.Vector {
	for _, d := range masterDimensions {
		asked := get(v, d.master)
		if asked == 0 || !t.Container.Minimum.Has(d.whole) && !t.Container.Increment.Has(d.whole) {
			continue
		}
		if container, err := t.Container.Apply(resource.Vector{}.With(d.whole, asked)); err == nil {
			v = v.With(d.master, get(container, d.whole))
		}
	}
	return withMaster(v)
}

// withMaster raises a part to the size of its master, which is included in it.
func withMaster(v resource.Vector) resource.Vector {
	for _, d := range masterDimensions {
		if asked := get(v, d.master); asked > get(v, d.whole) {
			v = v.With(d.whole, asked)
		}
	}
	return v
}

// userOf names a user of a queue.
type userOf struct {
	queue *clusterQueue
	user  string
}

// userName returns the user of a user's part; empty for a queue.
func (q *clusterQueue) userName() string {
	if q.of == nil {
		return ""
	}
	return q.of.user
}

// userPart finds or makes the part of a user in a queue.
func (q *clusterQueue) userPart(user string) *clusterQueue {
	i, found := q.findUser(user)
	if found {
		return q.users[i]
	}
	u := newClusterQueue(q.cluster, queueKey{q.address.Path, q.address.Partition})
	u.of, u.taken = &userOf{q, user}, q.taken
	u.account.name.Labels = append(u.account.name.Labels, label.Label{Key: userKey, Value: user})
	u.applyUserReport()
	q.users = slices.Insert(q.users, i, u)
	return u
}

// findUser returns the place of a user among the queue's.
func (q *clusterQueue) findUser(user string) (int, bool) {
	return slices.BinarySearchFunc(q.users, user, func(u *clusterQueue, user string) int { return cmp.Compare(u.of.user, user) })
}

// usersAfter returns the users' parts of the queue after a name.
func (q *clusterQueue) usersAfter(name string) []*clusterQueue {
	i, found := q.findUser(name)
	if found {
		i++
	}
	return q.users[i:]
}

// dropUser forgets a user's part that no allocation charges.
func (q *clusterQueue) dropUser(u *clusterQueue) {
	if i, found := q.findUser(u.of.user); found && u.attached == 0 {
		q.users = slices.Delete(q.users, i, i+1)
		u.dropped = true
	}
}

// applyUserReport gives a user's part the last report of the user, or that of unlisted users.
func (q *clusterQueue) applyUserReport() {
	var said UserReport
	if of := q.of.queue.report.Users; of != nil {
		said.Limit = of.Limit
		if i, listed := slices.BinarySearchFunc(of.Listed, q.of.user, func(u UserReport, user string) int { return cmp.Compare(u.User, user) }); listed {
			said = of.Listed[i]
		}
	}
	q.known, q.taken = q.of.queue.known, q.of.queue.taken
	q.report = QueueReport{Limit: clamped(said.Limit), Used: clamped(said.Used)}
	q.applyReport()
}

// limited returns the part of a request to which the limits apply now. In a queue without a running
// master, the limits of masters do not apply to the first application.
func (q *clusterQueue) limited(request resource.Vector) resource.Vector {
	if q.firstIsFree() {
		return withoutMasters(request)
	}
	return request
}

// firstIsFree reports whether the next application is exempt from the limits of masters.
func (q *clusterQueue) firstIsFree() bool {
	if q.of != nil {
		q = q.of.queue
	}
	if !q.report.FirstIsFree {
		return false
	}
	a := &q.account
	for _, d := range masterDimensions {
		if a.used.Get(d.master)+a.reserved.Get(d.master)+get(a.others, d.master) > 0 {
			return false
		}
	}
	return true
}

// usersPerStep bounds the users' parts that one step marks when the next application of a queue
// becomes exempt from the limits of masters. One takes up to 0.1 µs.
const usersPerStep = 1024

// freeing is a queue in which the next application of any user may start.
type freeing struct {
	queue *clusterQueue
	after string // the parts of users up to this name are marked
}

// freedUser marks the queue of requests that wait for a user's part of a queue, if any do.
func (l *Ledger) freedUser(u *clusterQueue) {
	if a := &u.account; a.queue.waiting > 0 || a.queue.marked || a.claim != nil {
		l.freed(a)
	}
}

// freedForAll notes that no master runs in a queue any more, so that the next application of any
// user may start.
func (l *Ledger) freedForAll(q *clusterQueue) {
	for i := range l.freeing {
		if l.freeing[i].queue == q {
			l.freeing[i].after = ""
			return
		}
	}
	if len(q.users) > 0 {
		l.freeing = append(l.freeing, freeing{queue: q})
	}
}

// freeUsers marks users' parts of such queues, up to the bound of one step.
func (l *Ledger) freeUsers() {
	for left := usersPerStep; len(l.freeing) > 0; l.freeing = slices.Delete(l.freeing, 0, 1) {
		f := &l.freeing[0]
		if !f.queue.firstIsFree() {
			continue // one has started
		}
		for _, u := range f.queue.usersAfter(f.after) {
			if left == 0 {
				return
			}
			left--
			f.after = u.of.user
			l.freedUser(u)
		}
	}
}

// withoutMasters returns a vector without the dimensions of masters.
func withoutMasters(v resource.Vector) resource.Vector {
	if len(v.Custom()) == 0 {
		return v
	}
	return v.Without(resource.AMMemory).Without(resource.AMCPU)
}

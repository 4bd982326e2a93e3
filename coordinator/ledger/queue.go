package ledger

import (
	"encoding/binary"
	"math"

	"github.com/tidwall/btree"

	"github.com/bursar/bursar/resource"
)

// Requests that wait are kept on three levels, so that finding the next one is cheap.
//
// A class holds the requests that are alike: same caller, labels, resource, priority and wishes.
// What blocks one of them blocks all, so a class waits as a whole behind one account, and only its
// first member is tried. A group holds the classes behind one account that share one fair share,
// by priority and arrival. A queue, one per account, holds its groups by priority, fair share and
// arrival.

// class is the requests that wait and are alike.
type class struct {
	key      string
	priority int32
	share    *share
	request  resource.Vector // of hosts and quotas
	// members have a caller that waits, or need none; the oldest is first. Requests whose callers
	// are gone are in no class.
	members heap[*entry]
	group   *group // that it waits in; nil: in none
	index   int    // in the group's heap
	tried   bool   // by the present walk through its queue, see walk.go
	// absence says which host is missing, as of the shapes in absenceOf: see whyWaits.
	absence   string
	absenceOf uint64
	// lacking says what is short, as of the commands in lackingOf: see describe.
	lacking   string
	lackingOf uint64
}

func (c *class) first() *entry { return c.members.items[0] }

// group is the classes behind one account that share one fair share.
type group struct {
	share   *share
	queue   *queue
	classes heap[*class]
	index   int // in the queue's heap

	// Of a step of the walk, see walk.go:
	step   uint64
	misses int  // classes that were tried without success
	aside  bool // no more are tried
}

func (g *group) first() *class { return g.classes.items[0] }

// queue is the requests that wait behind one account, or for any host.
type queue struct {
	waiting      int // requests in all its classes
	classes      int
	account      *account      // nil: requests here wait for any host
	host         *host         // the host if the account is a host's
	clusterQueue *clusterQueue // the cluster queue if the account is a cluster queue's
	groups       heap[*group]
	byShare      map[*share]*group
	// least is at most what each request here asks for, in memory, cpu and instances. If less is
	// free, no request need be tried.
	least [3]int64
	// needs counts the classes that wait for any host, or for this one, by the memory that they ask
	// for. A host's report that shows more memory concerns only those that ask for that much.
	needs *btree.Map[int64, int]

	// Of the walk through it, see walk.go:
	marked       bool // its account has more to give
	again        bool // and had still more, after the walk had begun
	ended        bool // a hold of it has ended, before the walk began
	endedAgain   bool // or after that
	turn         int  // how many more may be tried without success in this round
	tried        int  // classes that were tried
	triedClasses []*class
	holderTried  bool
}

func classBefore(a, b *class) bool {
	if a.tried != b.tried {
		return b.tried
	}
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	return a.first().ID < b.first().ID
}

func groupBefore(a, b *group) bool {
	x, y := a.first(), b.first()
	switch {
	case a.aside != b.aside:
		return b.aside
	case x.tried != y.tried:
		return y.tried
	}
	if x.priority != y.priority {
		return x.priority > y.priority
	}
	if a.share.value != b.share.value {
		return a.share.value < b.share.value
	}
	return x.first().ID < y.first().ID
}

// newMembers, newClasses and newGroups are the three heaps.
func newMembers() heap[*entry] {
	return heap[*entry]{
		before: func(a, b *entry) bool { return a.ID < b.ID },
		moved:  func(e *entry, i int) { e.memberIndex = i },
	}
}

func newClasses() heap[*class] {
	return heap[*class]{before: classBefore, moved: func(c *class, i int) { c.index = i }}
}

func newGroups() heap[*group] {
	return heap[*group]{before: groupBefore, moved: func(g *group, i int) { g.index = i }}
}

// push enqueues a class, which has members and is in no queue, behind the queue's account.
func (q *queue) push(c *class) {
	if q.byShare == nil {
		q.byShare = make(map[*share]*group)
		q.groups = newGroups()
	}
	g := q.byShare[c.share]
	if g == nil {
		g = &group{share: c.share, queue: q, classes: newClasses()}
		q.byShare[c.share] = g
	}
	c.group = g
	g.classes.push(c)
	if len(g.classes.items) == 1 {
		q.groups.push(g)
		c.share.groups = append(c.share.groups, g)
	} else {
		q.groups.fix(g.index)
	}
	if q.waiting == 0 {
		q.least = [3]int64{math.MaxInt64, math.MaxInt64, math.MaxInt64}
	}
	q.waiting += len(c.members.items)
	q.classes++
	if q.clusterQueue != nil {
		q.clusterQueue.updateActive()
	}
	asked := q.asked(c)
	q.countNeed(asked.Memory(), 1)
	q.least[0] = min(q.least[0], asked.Memory())
	q.least[1] = min(q.least[1], asked.CPU())
	q.least[2] = min(q.least[2], asked.Instances())
}

// countNeed counts, or with -1 discounts, a class that waits for any host or for this one.
func (q *queue) countNeed(memory int64, by int) {
	if q.account != nil && q.host == nil {
		return
	}
	if q.needs == nil {
		q.needs = new(btree.Map[int64, int])
	}
	if n, _ := q.needs.Get(memory); n+by > 0 {
		q.needs.Set(memory, n+by)
	} else {
		q.needs.Delete(memory)
	}
}

// needsBetween reports whether a class asks for more memory than the first amount, and at most for
// the second.
func (q *queue) needsBetween(less, most int64) bool {
	found := false
	if q.needs != nil && q.waiting > 0 && less < most {
		q.needs.Ascend(less+1, func(memory int64, _ int) bool {
			found = memory <= most
			return false
		})
	}
	return found
}

// asked is what each request of a class asks of the queue's account.
func (q *queue) asked(c *class) resource.Vector {
	switch {
	case q.account != nil && q.account.abroad() != nil:
		return c.first().limitCharge(q.account)
	case q.clusterQueue == nil:
		return c.request
	}
	for _, t := range c.first().queueCharges() {
		if t.queue == q.clusterQueue {
			return t.vector
		}
	}
	return resource.Vector{}
}

// dequeue takes a class out of its queue, if it is in one.
func (c *class) dequeue() {
	g := c.group
	if g == nil {
		return
	}
	q := g.queue
	q.waiting -= len(c.members.items)
	g.classes.remove(c.index)
	c.group = nil
	q.classes--
	if q.clusterQueue != nil {
		q.clusterQueue.updateActive()
	}
	if c.tried {
		c.tried = false
		q.tried--
	}
	q.countNeed(c.request.Memory(), -1)
	if len(g.classes.items) > 0 {
		q.groups.fix(g.index)
		return
	}
	q.groups.remove(g.index)
	delete(q.byShare, g.share)
	g.share.drop(g)
}

// add adds a request to its class.
func (c *class) add(e *entry) {
	e.class = c
	c.members.push(e)
	if c.group != nil {
		c.group.queue.waiting++
		c.fix()
	}
}

// remove takes a request out of its class. An empty class is in no queue.
func (c *class) remove(e *entry) {
	if len(c.members.items) == 1 {
		c.dequeue()
		c.members.remove(e.memberIndex)
		e.class = nil
		return
	}
	c.members.remove(e.memberIndex)
	e.class = nil
	if c.group != nil {
		c.group.queue.waiting--
		c.fix()
	}
}

// fix restores the order above a class whose first member changed.
func (c *class) fix() {
	c.group.classes.fix(c.index)
	c.group.queue.groups.fix(c.group.index)
}

// first is the first request in the queue; nil if none waits.
func (q *queue) first() *entry {
	if q.waiting == 0 {
		return nil
	}
	return q.groups.items[0].first().first()
}

// hopeless reports whether less is free than any request here asks for. A request that asks for
// nothing of a dimension lacks nothing of it, even if less than zero is left.
func (q *queue) hopeless(free [3]int64) bool {
	return q.waiting == 0 ||
		q.least[0] > max(0, free[0]) || q.least[1] > max(0, free[1]) || q.least[2] > max(0, free[2])
}

// goesBefore orders two requests of one queue by priority, fair share and arrival.
func goesBefore(g *group, c *class, e *entry, h *group, d *class, f *entry) bool {
	if c.priority != d.priority {
		return c.priority > d.priority
	}
	if g != h && g.share.value != h.share.value {
		return g.share.value < h.share.value
	}
	return e.ID < f.ID
}

// classKey appends the key of a request's class.
func classKey(buf []byte, a *Allocation) []byte {
	buf = binary.AppendVarint(buf, int64(a.Priority))
	buf = appendText(appendText(buf, a.HostID), a.Payer()) // a host may be closed to a caller
	buf = binary.AppendUvarint(buf, uint64(len(a.Labels)))
	for _, l := range a.Labels {
		buf = appendText(appendText(buf, l.Key), l.Value)
	}
	buf = binary.AppendUvarint(buf, uint64(len(a.Entitled.External)))
	for _, x := range a.Entitled.External {
		buf = appendText(appendText(buf, x.Kind), x.Cluster)
		buf = append(appendVector(appendText(appendText(buf, x.Path), x.Partition), x.Vector), 0)
	}
	buf = appendVector(buf, a.Entitled.Vector)
	if w := a.Wishes; w != nil {
		buf = append(buf, 0)
		for _, l := range w.Required {
			buf = appendText(appendText(append(buf, 1), l.Key), l.Value)
		}
		for _, l := range w.Preferred {
			buf = appendText(appendText(append(buf, 2), l.Key), l.Value)
		}
		for _, id := range w.Avoid {
			buf = appendText(append(buf, 3), id)
		}
		if r := w.Rules; r != nil {
			for i := range r.Required {
				buf = appendText(append(buf, 4), r.Required[i].String())
			}
			for i := range r.Preferred {
				buf = appendText(append(buf, 5), r.Preferred[i].String())
			}
			for i := range r.Avoided {
				buf = appendText(append(buf, 6), r.Avoided[i].String())
			}
		}
	}
	return buf
}

func appendVector(buf []byte, v resource.Vector) []byte {
	for dimension, quantity := range v.All() {
		buf = binary.AppendVarint(appendText(buf, dimension), quantity)
	}
	return buf
}

func appendText(buf []byte, text string) []byte {
	return append(binary.AppendUvarint(buf, uint64(len(text))), text...)
}

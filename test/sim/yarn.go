package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// gpu is the custom countable that queues may list.
const gpu = "gpu"

// dimensions are what queues limit, in the order of an amount.
var dimensions = [...]string{resource.Memory, resource.CPU, gpu}

// amount is a quantity of each of the dimensions.
type amount [len(dimensions)]int64

func amountOf(v resource.Vector) (a amount) {
	for i, dimension := range dimensions {
		a[i], _ = v.Get(dimension)
	}
	return a
}

// vector lists memory and cpu always, and what else there is.
func (a amount) vector() resource.Vector {
	v := resource.Vector{}.WithMemory(a[0]).WithCPU(a[1])
	if a[2] != 0 {
		v = v.With(gpu, a[2])
	}
	return v
}

func (a amount) plus(b amount) amount {
	for i := range a {
		a[i] += b[i]
	}
	return a
}

func (a amount) times(n int64) amount {
	for i := range a {
		a[i] *= n
	}
	return a
}

func (a amount) atMost(b amount) amount {
	for i := range a {
		a[i] = min(a[i], b[i])
	}
	return a
}

// ceiling is the limit of a queue. Memory and cpu that are not listed are not limited; of gpus
// that are not listed there are none.
type ceiling struct {
	most   amount
	listed [len(dimensions)]bool
}

// of is the limit of a dimension; false: there is none.
func (c *ceiling) of(dimension int) (most int64, limited bool) {
	return c.most[dimension], c.listed[dimension] || dimensions[dimension] == gpu
}

func (c *ceiling) vector() resource.Vector {
	v := resource.Vector{}
	for i, dimension := range dimensions {
		if c.listed[i] {
			v = v.With(dimension, c.most[i])
		}
	}
	return v
}

// queueKey is a queue in a partition.
type queueKey struct{ path, partition string }

// machines is how many machines every cluster has; with enough of them it is trusted.
const (
	machines = 4
	enough   = machines - 1
)

// yarn is a YARN cluster in its true state: its queues, what runs there, and its ResourceManager.
type yarn struct {
	w       *World
	address string
	queues  map[string]*yarnQueue // by path
	apps    []*application        // that are not over, first come first
	known   map[string]*application
	last    int // application that was submitted

	run     int            // of the ResourceManager
	back    [machines]bool // those that have reported to this run
	away    bool           // nobody reaches it
	passive bool           // no ResourceManager is in charge
	slow    bool
	// brief: it names the queue of an application only by its leaf, and does not separate the
	// partitions of what it holds.
	brief bool
}

// yarnQueue is a queue.
type yarnQueue struct {
	path   string
	limits map[string]ceiling // by partition
	// standard is the partition of applications that name none.
	standard string
	stopped  bool
	creates  bool // a queue below it is made by using it
	made     bool // by using it
}

// parent is the path of the queue above; empty for the root.
func parent(path string) string {
	if at := strings.LastIndexByte(path, '.'); at >= 0 {
		return path[:at]
	}
	return ""
}

func leaf(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// within reports whether a place is the other or below it.
func (at queueKey) within(above queueKey) bool {
	return at.partition == above.partition && (at.path == above.path || strings.HasPrefix(at.path, above.path+"."))
}

// newYarn draws a cluster. Two of them with different numbers have the same queues, with other
// limits.
func newYarn(w *World, address string, duplicates, labels bool) *yarn {
	y := &yarn{w: w, address: address, queues: make(map[string]*yarnQueue), known: make(map[string]*application)}
	y.brief = !duplicates && w.chance(3)
	for i := range y.back {
		y.back[i] = true
	}
	paths := []string{"root", "root.a", "root.a.a1", "root.a.a2", "root.b", "root.users"}
	if duplicates {
		paths = append(paths, "root.c", "root.c.a1")
	}
	for _, path := range paths {
		q := y.add(path)
		q.creates = path == "root.users"
		if labels && (path == "root" || path == "root.a" || path == "root.a.a1") {
			q.limits["fast"] = y.drawLimit(path, "fast")
			if path == "root.a.a1" && w.chance(3) {
				q.standard = "fast"
			}
		}
	}
	return y
}

// add makes a queue in the default partition.
func (y *yarn) add(path string) *yarnQueue {
	q := &yarnQueue{path: path, limits: make(map[string]ceiling)}
	q.limits[""] = y.drawLimit(path, "")
	y.queues[path] = q
	return q
}

// drawLimit draws the limit of a queue: a part of that of the queue above, seldom more.
func (y *yarn) drawLimit(path, partition string) ceiling {
	w := y.w
	above := y.queues[parent(path)]
	if above == nil {
		return ceiling{
			most:   amount{(16 + w.rng.Int64N(48)) * gib, (8 + w.rng.Int64N(32)) * 1000, w.rng.Int64N(6)},
			listed: [len(dimensions)]bool{true, !w.chance(4), w.chance(2)},
		}
	}
	c := above.limits[partition]
	c.listed[0] = !w.chance(8)
	for i := range c.most {
		c.most[i] -= c.most[i] * w.rng.Int64N(4) / 5
	}
	return c
}

// isParent reports whether a queue takes no applications itself.
func (y *yarn) isParent(path string) bool {
	return slices.Contains([]string{"root", "root.a", "root.users", "root.c"}, path)
}

// paths are those of all queues, in order.
func (y *yarn) paths() []string { return slices.Sorted(maps.Keys(y.queues)) }

// used is what applications hold at a place and below it, as far as machines have reported.
func (y *yarn) used(at queueKey) (sum amount) {
	for _, a := range y.apps {
		if a.at.within(at) {
			sum = sum.plus(a.held())
		}
	}
	return sum
}

// fits reports whether a place has room for more.
func (y *yarn) fits(at queueKey, more amount) bool {
	for path := at.path; path != ""; path = parent(path) {
		q := y.queues[path]
		if q == nil {
			return false
		}
		limit, there := q.limits[at.partition]
		if !there {
			return false
		}
		used := y.used(queueKey{path, at.partition})
		for i := range more {
			if most, limited := limit.of(i); limited && more[i] > 0 && used[i]+more[i] > most {
				return false
			}
		}
	}
	return true
}

// complete reports whether all machines have reported.
func (y *yarn) complete() bool { return !slices.Contains(y.back[:], false) }

// snapshot is what the ResourceManager says of all queues at a moment, and what is true then.
type snapshot struct {
	from   *yarn
	at     time.Time
	report ledger.ClusterReport
	queues map[queueKey]*ledger.QueueReport
	held   []holding
}

// holding is what an application holds.
type holding struct {
	application string
	allocation  string // that it was started under; empty: another's
	at          queueKey
	amount      amount
}

// takeSnapshot takes a snapshot. As long as machines are still to report, everything is too small;
// until most have, the snapshot says that it cannot be trusted. Nobody sees what runs on machines
// that have not reported.
func (y *yarn) takeSnapshot() *snapshot {
	s := &snapshot{from: y, at: y.w.now, queues: make(map[queueKey]*ledger.QueueReport)}
	s.report.Incarnation = fmt.Sprintf("%s-%d", y.address, y.run)
	back := int64(0)
	for _, reported := range y.back {
		if reported {
			back++
		}
	}
	switch {
	case back == 0:
		s.report.Untrusted = "no machine has reported"
	case back < enough:
		s.report.Untrusted = "not enough machines are back"
	}
	for _, path := range y.paths() {
		q := y.queues[path]
		for _, partition := range slices.Sorted(maps.Keys(q.limits)) {
			limit := q.limits[partition]
			for i := range limit.most {
				limit.most[i] = limit.most[i] * back / machines
			}
			r := ledger.QueueReport{
				Path: path, Parent: parent(path), Partition: partition, Limit: limit.vector(), Used: y.used(queueKey{path, partition}).vector(),
				State: "RUNNING", Closed: q.stopped, CreatesChildren: q.creates, LeavesOnly: y.isParent(path), DefaultPartition: q.standard,
			}
			if q.stopped {
				r.State = "STOPPED"
			}
			r.Details = y.w.moves(&r)
			s.report.Queues = append(s.report.Queues, r)
		}
	}
	for i := range s.report.Queues {
		r := &s.report.Queues[i]
		s.queues[queueKey{r.Path, r.Partition}] = r
	}
	for _, a := range y.apps {
		s.held = append(s.held, holding{a.id, a.allocation(), a.at, a.held()})
	}
	return s
}

// answer is the ResourceManager's answer about an application.
func (y *yarn) answer(id string) ledger.ApplicationReport {
	a := y.known[id]
	if a == nil {
		return ledger.ApplicationReport{ID: id}
	}
	r := ledger.ApplicationReport{ID: id, Known: true, Ended: a.over, Queue: a.at.path, User: a.user()}
	partition := a.at.partition
	if y.brief {
		r.Queue, partition = leaf(a.at.path), ledger.AnyPartition
	}
	if !a.over {
		r.Allocated = map[string]resource.Vector{partition: a.held().vector()}
	}
	return r
}

// tellf adds a line to the story.
func (y *yarn) tellf(format string, args ...any) {
	y.w.tellf("%s: %s", y.address, fmt.Sprintf(format, args...))
}

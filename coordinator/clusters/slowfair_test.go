package clusters

import (
	"fmt"
	"math"
	"strings"
)

// size is memory in MiB, and cores.
type size [2]int64

func (s size) plus(o size) size { return size{s[0] + o[0], s[1] + o[1]} }

func (s size) minus(o size) size { return size{s[0] - o[0], s[1] - o[1]} }

func (s size) within(o size) bool { return s[0] <= o[0] && s[1] <= o[1] }

func (s size) String() string { return fmt.Sprintf(`{"memory":%d,"vCores":%d}`, s[0], s[1]) }

// slowFair is a FairScheduler: a slow model of the rules by which masters start, from Hadoop's
// ComputeFairShares, FSLeafQueue and FSAppAttempt.
type slowFair struct {
	cluster  size
	root     *slowFairQueue
	dominant bool
	amShare  float32
}

// slowFairQueue is one of its queues.
type slowFairQueue struct {
	path               string
	weight             float32
	least, most        size // unlimited is more than the cluster
	children           []*slowFairQueue
	parent             bool
	apps               []*slowFairApp
	fair, steady       size
	gauge              size // the limit when a master last started
	masters, allocated size
}

// slowFairApp is an application with only a master.
type slowFairApp struct {
	master  size
	started bool
	stuck   bool // it is somebody else's and will not start
}

func (q *slowFairQueue) active() bool {
	if len(q.apps) > 0 {
		return true
	}
	for _, child := range q.children {
		if child.active() {
			return true
		}
	}
	return false
}

// share returns a queue's share for a ratio, in one dimension.
func (q *slowFairQueue) share(ratio float64, d int) int64 {
	return int64(math.Min(math.Max(float64(q.weight)*ratio, float64(q.least[d])), float64(max(q.most[d], q.least[d]))))
}

// compute divides a queue's resources in one dimension, like ComputeFairShares.
func compute(among []*slowFairQueue, total int64, d int, set func(*slowFairQueue, int64)) {
	var list []*slowFairQueue
	for _, q := range among {
		switch {
		case max(q.most[d], q.least[d]) <= 0:
			set(q, 0)
		case q.weight <= 0:
			set(q, q.least[d])
			total -= q.least[d]
		default:
			list = append(list, q)
		}
	}
	if len(list) == 0 {
		return
	}
	most := int64(0)
	for _, q := range list {
		most += max(q.most[d], q.least[d])
	}
	total = min(most, max(0, total))
	taken := func(ratio float64) (n int64) {
		for _, q := range list {
			n += q.share(ratio, d)
		}
		return n
	}
	right := 1.0
	for taken(right) < total {
		right *= 2
	}
	left := 0.0
	for range 25 {
		middle := (left + right) / 2
		n := taken(middle)
		if n == total {
			right = middle
			break
		}
		if n < total {
			left = middle
		} else {
			right = middle
		}
	}
	for _, q := range list {
		set(q, q.share(right, d))
	}
}

// update computes all shares.
func (s *slowFair) update() {
	s.root.fair, s.root.steady = s.cluster, s.cluster
	s.updateBelow(s.root)
}

func (s *slowFair) updateBelow(q *slowFairQueue) {
	for d := range 2 {
		if d == 1 && !s.dominant {
			break
		}
		var active []*slowFairQueue
		for _, child := range q.children {
			if child.active() {
				active = append(active, child)
			} else {
				child.fair[d] = 0
			}
		}
		compute(active, q.fair[d], d, func(q *slowFairQueue, n int64) { q.fair[d] = n })
		compute(q.children, q.steady[d], d, func(q *slowFairQueue, n int64) { q.steady[d] = n })
	}
	for _, child := range q.children {
		s.updateBelow(child)
	}
}

func (s *slowFair) all(q *slowFairQueue) (list []*slowFairQueue) {
	list = append(list, q)
	for _, child := range q.children {
		list = append(list, s.all(child)...)
	}
	return list
}

func (s *slowFair) free() size {
	free := s.cluster
	for _, q := range s.all(s.root) {
		free = free.minus(q.allocated)
	}
	return free
}

// limit returns the current limit for masters in a queue.
func (s *slowFair) limit(q *slowFairQueue) (limit size) {
	free := s.free()
	for d := range limit {
		of := q.fair[d]
		if of == 0 {
			of = min(free[d], max(q.most[d], q.least[d]))
		}
		limit[d] = int64(math.Ceil(float64(of) * float64(s.amShare)))
	}
	return limit
}

// try starts the master of an application, if it may start.
func (s *slowFair) try(q *slowFairQueue, a *slowFairApp) bool {
	q.gauge = s.limit(q)
	if !q.masters.plus(a.master).within(q.gauge) || !a.master.within(s.free()) {
		return false
	}
	a.started, q.masters, q.allocated = true, q.masters.plus(a.master), q.allocated.plus(a.master)
	return true
}

// settle starts masters one by one until none may start.
func (s *slowFair) settle() {
	for more := true; more; {
		more = false
		s.update()
		for _, q := range s.all(s.root) {
			for _, a := range q.apps {
				more = !a.started && !a.stuck && s.try(q, a) || more
			}
		}
	}
}

// queue finds or makes a queue.
func (s *slowFair) queue(path string) *slowFairQueue {
	for _, q := range s.all(s.root) {
		if q.path == path {
			return q
		}
	}
	above := s.queue(path[:strings.LastIndexByte(path, '.')])
	q := &slowFairQueue{path: path, weight: 1, most: s.cluster}
	above.children = append(above.children, q)
	return q
}

// answer returns the ResourceManager's answer about a queue and those below it.
func (s *slowFair) answer(q *slowFairQueue) string {
	most := size{min(max(q.most[0], q.least[0]), s.cluster[0]), min(max(q.most[1], q.least[1]), s.cluster[1])}
	used := size{}
	for _, of := range s.all(q) {
		used = used.plus(of.allocated)
	}
	policy := map[bool]string{true: "DRF", false: "fair"}[s.dominant]
	text := fmt.Sprintf(`"schedulingPolicy":%q,"queueName":%q,"clusterResources":%s,"minResources":%s,"maxResources":%s,"usedResources":%s,"amUsedResources":%s,"amMaxResources":%s,"fairResources":%s,"steadyFairResources":%s`,
		policy, q.path, s.cluster, q.least, most, used, q.masters, q.gauge, q.fair, q.steady)
	if !q.parent {
		started := 0
		for _, a := range q.apps {
			if a.started {
				started++
			}
		}
		return fmt.Sprintf(`{"type":"fairSchedulerLeafQueueInfo",%s,"numActiveApps":%d,"numPendingApps":%d}`, text, started, len(q.apps)-started)
	}
	var below []string
	for _, child := range q.children {
		below = append(below, s.answer(child))
	}
	return fmt.Sprintf(`{%s,"childQueues":{"queue":[%s]}}`, text, strings.Join(below, ","))
}

package yarn_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/providers/yarn"
	"github.com/bursar/bursar/resource"
)

// size is memory in MiB, and cores.
type size [2]int64

func (s size) plus(o size) size { return size{s[0] + o[0], s[1] + o[1]} }

// slowQueue is a queue of the CapacityScheduler: a slow model of the rules by which applications
// start, from its documentation and its classes AbstractLeafQueue, UsersManager and resource
// calculators.
type slowQueue struct {
	cluster, guaranteed, most size
	current                   size // the room left by its siblings
	smallest                  size
	dominant                  bool
	percent                   float32 // the share of masters, 0 to 1
	userPercent               float32 // 0 to 1
	factor                    float32
	applications, perUser     int
	active                    int // users with pending requests
	apps                      []slowApplication
}

// slowApplication has a master and containers of the same size.
type slowApplication struct {
	user         string
	master, each size
	containers   int
}

func (a *slowApplication) all() size {
	sum := a.master
	for range a.containers {
		sum = sum.plus(a.each)
	}
	return sum
}

// used returns the use of a user's applications and masters; empty: of all users.
func (q *slowQueue) used(user string) (all, masters size, applications int) {
	for i := range q.apps {
		if a := &q.apps[i]; user == "" || a.user == user {
			all, masters = all.plus(a.all()), masters.plus(a.master)
			applications++
		}
	}
	return all, masters, applications
}

// share returns a share of a size in whole containers. The default calculator rounds to the nearest
// MiB first, the dominant one rounds up.
func (q *slowQueue) share(of size, by float32) (part size) {
	for d := range of {
		exact := float64(of[d]) * float64(by)
		n := int64(exact + 0.5)
		if q.dominant {
			n = int64(math.Ceil(exact))
		}
		for n%q.smallest[d] != 0 {
			n++
		}
		part[d] = n
	}
	if !q.dominant {
		part[1] = 1
	}
	return part
}

func (q *slowQueue) mastersLimit() size {
	usable := q.guaranteed
	if q.fits(q.guaranteed, q.current) {
		usable = q.current
	}
	return q.share(usable, q.percent)
}

func (q *slowQueue) userMastersLimit(active int) (limit size) {
	by := q.percent
	if q.factor != -1 {
		by *= max(q.userPercent, 1/float32(max(active, 1))) * q.factor
	}
	limit = q.share(q.guaranteed, by)
	if all := q.mastersLimit(); q.greater(limit, all) {
		return all
	}
	return limit
}

// userCap returns the maximum of one user.
func (q *slowQueue) userCap() (most size) {
	for d := range most {
		n := max(q.guaranteed[d], q.smallest[d])
		if q.factor == -1 {
			n = q.most[d]
		} else {
			n = int64(math.Floor(float64(n) * float64(q.factor)))
		}
		for n%q.smallest[d] != 0 {
			n++
		}
		most[d] = n
	}
	return most
}

func (q *slowQueue) fits(a, b size) bool { return a[0] <= b[0] && (!q.dominant || a[1] <= b[1]) }

// greater compares by memory, or by the larger share of the cluster.
func (q *slowQueue) greater(a, b size) bool {
	if !q.dominant {
		return a[0] > b[0]
	}
	share := func(s size) float64 {
		return max(float64(s[0])/float64(q.cluster[0]), float64(s[1])/float64(q.cluster[1]))
	}
	return share(a) > share(b)
}

// starts reports whether an application gets all its containers while active users are active.
func (q *slowQueue) starts(a *slowApplication, active int) bool {
	used, masters, applications := q.used("")
	own, ownMasters, ownApplications := q.used(a.user)
	if applications >= q.applications || ownApplications >= q.perUser {
		return false // rejected
	}
	if masters != (size{}) && (!q.fits(masters.plus(a.master), q.mastersLimit()) || !q.fits(ownMasters.plus(a.master), q.userMastersLimit(active))) {
		return false // not activated
	}
	next := a.master
	for i := range 1 + a.containers {
		if i > 0 {
			next = a.each
		}
		if q.greater(own, q.userCap()) || !q.fits(used.plus(next), q.most) {
			return false
		}
		used, own = used.plus(next), own.plus(next)
	}
	return true
}

// answer returns the ResourceManager's answer about the queue.
func (q *slowQueue) answer() string {
	text := func(s size) string { return fmt.Sprintf(`{"memory":%d,"vCores":%d}`, s[0], s[1]) }
	used, masters, applications := q.used("")
	var users []string
	for _, name := range slowUsers {
		own, ownMasters, n := q.used(name)
		if n > 0 {
			users = append(users, fmt.Sprintf(`{"username":%q,"resourcesUsed":%s,"AMResourceUsed":%s,"numActiveApplications":%d,"numPendingApplications":0,"userWeight":1.0,"isActive":false}`,
				name, text(own), text(ownMasters), n))
		}
	}
	for i := range q.active {
		users = append(users, fmt.Sprintf(`{"username":"active%d","resourcesUsed":{"memory":0,"vCores":0},"userWeight":1.0,"isActive":true}`, i))
	}
	return fmt.Sprintf(`{"scheduler":{"schedulerInfo":{"type":"capacityScheduler","queueName":"root","queues":{"queue":[{"queueName":"a","state":"RUNNING",
		"capacities":{"queueCapacitiesByPartition":[{"partitionName":"","maxAMLimitPercentage":%v,"effectiveMinResource":%s,"effectiveMaxResource":%s}]},
		"resourcesUsed":%s,"AMResourceLimit":%s,"usedAMResource":%s,"numApplications":%d,"maxApplications":%d,"maxApplicationsPerUser":%d,
		"userLimit":%v,"userLimitFactor":%v,"users":{"user":[%s]}}]}}}}`,
		q.percent*100, text(q.guaranteed), text(q.most), text(used), text(q.mastersLimit()), text(masters), applications, q.applications, q.perUser,
		q.userPercent*100, q.factor, strings.Join(users, ","))
}

var slowUsers = []string{"alice", "bob", "carol"}

// drawSlowQueue draws a queue, and starts applications in it.
func drawSlowQueue(t *rapid.T) *slowQueue {
	q := &slowQueue{
		cluster:     size{rapid.Int64Range(16<<10, 256<<10).Draw(t, "memory"), 0},
		smallest:    size{rapid.SampledFrom([]int64{1, 128, 512, 1000, 1024}).Draw(t, "smallest"), 1},
		dominant:    rapid.Bool().Draw(t, "dominant"),
		percent:     rapid.SampledFrom([]float32{0.05, 0.1, 0.333, 0.5, 1}).Draw(t, "AM percent"),
		userPercent: rapid.SampledFrom([]float32{1, 1, 0.25, 0.33}).Draw(t, "user percent"),
		factor:      rapid.SampledFrom([]float32{-1, 0.5, 1, 1, 1.7, 3}).Draw(t, "factor"),
		active:      rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "active"),
	}
	q.cluster[1] = q.cluster[0] / rapid.SampledFrom([]int64{1024, 4096}).Draw(t, "MiB for each core")
	capacity := rapid.Float64Range(0.1, 1).Draw(t, "capacity")
	most := rapid.Float64Range(capacity, 1).Draw(t, "maximum")
	now := rapid.Float64Range(0, most).Draw(t, "what it may use now")
	for d := range q.cluster {
		q.guaranteed[d], q.most[d] = int64(float64(q.cluster[d])*capacity), int64(float64(q.cluster[d])*most)
		q.current[d] = int64(float64(q.cluster[d]) * now)
	}
	if by := float64(q.percent * max(1, q.factor)); !q.dominant && rapid.Bool().Draw(t, "a share is close to whole containers") {
		n := rapid.Int64Range(1, 8).Draw(t, "containers of masters")
		q.guaranteed[0] = min(q.most[0], int64(float64(n*q.smallest[0])/by)+rapid.Int64Range(-2, 12).Draw(t, "off by"))
		q.guaranteed[0] = max(q.smallest[0], q.guaranteed[0])
		q.guaranteed[1] = q.guaranteed[0] * q.cluster[1] / q.cluster[0]
	}
	q.guaranteed[1] = max(1, q.guaranteed[1])
	q.applications = rapid.SampledFrom([]int{3, 1000}).Draw(t, "applications")
	q.perUser = rapid.SampledFrom([]int{2, 1000}).Draw(t, "applications of a user")
	for range rapid.IntRange(0, 8).Draw(t, "tries") {
		if a := q.draw(t); q.starts(&a, q.active) {
			q.apps = append(q.apps, a)
		}
	}
	return q
}

// draw draws an application whose containers YARN does not round.
func (q *slowQueue) draw(t *rapid.T) slowApplication {
	a := slowApplication{user: rapid.SampledFrom(slowUsers).Draw(t, "user"), containers: rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "containers")}
	one := func(name string) size {
		n := rapid.SampledFrom([]int64{1, 2, 3, 7, 20, 60}).Draw(t, name)
		for q.smallest[0]*n < 200 {
			n *= 10
		}
		return size{q.smallest[0] * n, rapid.SampledFrom([]int64{1, 1, 2}).Draw(t, name+" cores")}
	}
	a.master, a.each = one("master"), one("each")
	return a
}

// tighten usually sets the master to the room left for the user's masters, or to one container
// more.
func (q *slowQueue) tighten(t *rapid.T, a *slowApplication) {
	_, masters, _ := q.used(a.user)
	if left := q.userMastersLimit(q.active)[0] - masters[0]; left > q.smallest[0] && rapid.IntRange(0, 3).Draw(t, "all that is left for masters") > 0 {
		a.master[0] = left - left%q.smallest[0] + q.smallest[0]*rapid.Int64Range(-1, 1).Draw(t, "and containers")
	}
}

// lacks returns the missing room for an application, by dimension. Like the ledger, it compares the
// limit minus the use with the request.
func lacks(used, limit resource.Vector, a *slowApplication, first bool) map[string]int64 {
	all := a.all()
	short := make(map[string]int64)
	for dimension, asked := range map[string]int64{
		resource.Memory: all[0] << 20, resource.CPU: all[1] * 1000, resource.AMMemory: a.master[0] << 20, resource.AMCPU: a.master[1] * 1000, resource.Applications: 1,
	} {
		most, limited := limit.Get(dimension)
		has, _ := used.Get(dimension)
		if lack := has + asked - most; limited && lack > 0 && (!first || !resource.OfMasters(dimension)) {
			short[dimension] = lack
		}
	}
	return short
}

// The queue that results from an answer admits no application that YARN does not start. It may
// reject one that YARN starts only if less than a container is missing. The reasons are YARN's
// rounding, the extra container for a user above the limit (by the larger share), and a user who is
// not active yet.
func TestWhatFitsIsWhatYARNStarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawSlowQueue(t)
		a := q.draw(t)
		q.tighten(t, &a)
		s, err := yarn.Decode(strings.NewReader(q.answer()))
		if err != nil {
			t.Fatal(err)
		}
		// One core for masters may come from the default calculator or from a small queue.
		if q.dominant && q.mastersLimit()[1] == 1 || rapid.Bool().Draw(t, "the calculator is configured") {
			s.Assume.Calculator = map[bool]yarn.Calculator{true: yarn.CalculatorDominant, false: yarn.CalculatorDefault}[q.dominant]
		}
		if rapid.Bool().Draw(t, "the smallest container is configured") {
			s.Assume.Container = resource.Vector{}.WithMemory(q.smallest[0] << 20).WithCPU(1000)
		}
		total := resource.Vector{}.WithMemory(q.cluster[0] << 20).WithCPU(q.cluster[1] * 1000)
		queues := s.Queues(map[string]resource.Vector{"": total})
		at := slices.IndexFunc(queues, func(of providers.Queue) bool { return of.Path == "root.a" })
		queue := &queues[at]
		user := providers.User{Limit: queue.UserLimit}
		for _, listed := range queue.Users {
			if listed.Name == a.user {
				user = listed
			}
		}
		_, masters, _ := q.used("")
		first := queue.FirstIsFree && masters == size{}
		ofQueue, ofUser := lacks(queue.Used, queue.Limit, &a, first), lacks(user.Used, user.Limit, &a, first)
		switch granted := len(ofQueue)+len(ofUser) == 0; {
		case granted && !q.starts(&a, q.active):
			t.Fatalf("%+v is granted in %+v, and does not start: limit %s, user %s used %s", a, q, queue.Limit, user.Limit, user.Used)
		case !granted && q.starts(&a, q.active+1) && !q.excused(&a, ofQueue, ofUser, s.Assume.Calculator != ""):
			t.Fatalf("%+v is refused in %+v, and starts: short in the queue of %v, of the user of %v", a, q, ofQueue, ofUser)
		}
	})
}

// excused reports whether every shortage has one of these reasons.
func (q *slowQueue) excused(a *slowApplication, ofQueue, ofUser map[string]int64, calculator bool) bool {
	small := func(lack int64, dimension string, more size) bool {
		unit, d := int64(1<<20), 0
		if dimension == resource.CPU || dimension == resource.AMCPU {
			unit, d = 1000, 1
		}
		return lack <= (q.smallest[d]+more[d])*unit
	}
	cores := func(dimension string) bool { // cores limit while the calculator is unknown
		return !q.dominant && !calculator && (dimension == resource.CPU || dimension == resource.AMCPU)
	}
	for dimension, lack := range ofQueue {
		if !cores(dimension) && (!resource.OfMasters(dimension) || !small(lack, dimension, size{})) {
			return false
		}
	}
	one := size{max(a.master[0], a.each[0]), max(a.master[1], a.each[1])}
	for most, d := q.userCap(), 0; d < 2 && q.dominant; d++ {
		// The larger share counts, so the other may grow up to it.
		other := float64(most[1-d]) / float64(q.cluster[1-d])
		one[d] += max(0, int64(other*float64(q.cluster[d]))-most[d])
	}
	for dimension, lack := range ofUser {
		over := one
		if resource.OfMasters(dimension) {
			over = size{}
		}
		if dimension == resource.Applications || !cores(dimension) && !small(lack, dimension, over) {
			return false
		}
	}
	return true
}

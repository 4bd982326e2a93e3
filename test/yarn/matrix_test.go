package yarn_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
	"github.com/bursar/bursar/test/yarn"
)

var submissions = flag.Int("yarn.submissions", 20, "how many submissions TestMatrix makes to each scheduler")

// matrixCapacity has Hadoop's default limits on applications: the default calculator, a tenth of a
// queue for masters, and the queue's guarantee for a user.
var matrixCapacity = map[string]string{
	"resource-calculator":         "org.apache.hadoop.yarn.util.resource.DefaultResourceCalculator",
	"maximum-am-resource-percent": "0.1",
	"root.queues":                 "etl,adhoc,science,small",
	"root.etl.capacity":           "40", "root.etl.user-limit-factor": "1",
	"root.adhoc.capacity": "30", "root.adhoc.user-limit-factor": "1", "root.adhoc.maximum-capacity": "50",
	"root.science.capacity": "20", "root.science.user-limit-factor": "1", "root.science.maximum-applications": "4",
	"root.small.capacity": "10", "root.small.user-limit-factor": "1", "root.small.maximum-capacity": "10",
}

// matrixFair has the FairScheduler's default: half of a queue's share for masters.
const matrixFair = `<allocations>
<queue name="etl"/>
<queue name="adhoc"><maxResources>16384 mb,64 vcores</maxResources></queue>
<queue name="science"><maxRunningApps>3</maxRunningApps></queue>
<queue name="small"><maxResources>6144 mb,64 vcores</maxResources></queue>
</allocations>`

const (
	matrixWhole    = 100                                     // submissions, at least
	matrixSmallest = 1024                                    // MiB, the smallest container
	matrixBound    = 2*2400*time.Millisecond + 5*time.Second // two readings, each with its jitter, and 5 s
)

// TestMatrix has five users submit a mix of applications through Bursar, to queues with Hadoop's
// own settings. Granted applications start. Refused ones are submitted nevertheless, and do not
// start. Now and then somebody submits without Bursar, between two of its readings: only then may a
// grant be wrong.
func TestMatrix(t *testing.T) {
	t.Parallel()
	binary := buildBursar(t)
	c := yarn.Start(t, yarn.Options{
		Capacity: matrixCapacity,
		Settings: map[string]string{"yarn.scheduler.minimum-allocation-mb": fmt.Sprint(matrixSmallest)},
	})
	s := startDev(t, binary, providersFile(t, [2]string{
		"default",
		fmt.Sprintf("addresses: \"%s\", interval: 2s, smallestContainer: \"memory=%dMiB,cpu=1\"", c.Addresses(), matrixSmallest),
	}))
	s.awaitRead(t)
	for i, scheduler := range []string{"CapacityScheduler", "FairScheduler"} {
		if i > 0 {
			c.Restart(t, nil, matrixFair)
		}
		t.Run(scheduler, func(t *testing.T) {
			m := &matrix{t: t, c: c, s: s, random: rand.New(rand.NewPCG(1, uint64(i))), anyQueue: scheduler == "FairScheduler"}
			// A shell takes two Java processes: the small test has fewer.
			m.patience, m.shells = 3*time.Second, 10
			if *submissions >= matrixWhole {
				m.patience, m.shells = matrixBound, 5
			}
			for len(m.all) < *submissions && !t.Failed() {
				m.round()
			}
			m.end()
			m.judge()
		})
	}
}

// submission is one application of a user and its result.
type submission struct {
	number      int
	user, queue string
	master      int // MiB, as rounded by YARN
	containers  int // besides the master's
	each        int // MiB of each of these
	id          string
	refused     *bursarv1.InsufficientResources
	excuse      string // why a refused one may start
	between     string // a foreign submission that Bursar could not know of
	app         string
	started     bool
	took        time.Duration
	said        string // YARN's last diagnostics
}

func (s *submission) memory() int { return s.master + s.containers*s.each }

func (s *submission) String() string {
	return fmt.Sprintf("submission %d of %s in %s, a master of %d MiB and %d containers of %d MiB", s.number, s.user, s.queue, s.master, s.containers, s.each)
}

// matrix is a run of submissions to one scheduler.
type matrix struct {
	t        *testing.T
	c        *yarn.Cluster
	s        *system
	random   *rand.Rand
	patience time.Duration // for refused applications
	shells   int           // every shells-th has containers besides its master's
	anyQueue bool          // starts in one queue limit masters in the others
	all      []*submission
	running  []*submission // granted and started
	others   []*submission // submitted without Bursar
}

var matrixQueues = []string{"root.etl", "root.adhoc", "root.science", "root.small"}

var matrixUsers = []string{"alice", "bob", "carol", "dave", "erin"}

// round has users ask in each queue until one is refused, and submits all of these applications.
func (m *matrix) round() {
	m.settle()
	between := make(map[string]string)
	if m.random.IntN(3) == 0 {
		queue := matrixQueues[m.random.IntN(len(matrixQueues))]
		other := &submission{user: "somebody", queue: queue, master: matrixSmallest * (1 + m.random.IntN(4))}
		m.submit(other)
		m.others = append(m.others, other)
		for _, of := range matrixQueues {
			if of == queue || m.anyQueue {
				between[of] = fmt.Sprintf("%s of %d MiB in %s", other.app, other.master, queue)
			}
		}
	}
	var granted, refused []*submission
	for _, queue := range matrixQueues {
		for range 5 {
			if len(m.all) == *submissions {
				break
			}
			one := m.ask(queue)
			one.between = between[queue]
			if one.refused != nil {
				refused = append(refused, one)
				break
			}
			granted = append(granted, one)
		}
	}
	m.start(granted)
	for _, one := range refused {
		m.submit(one)
		for _, before := range granted {
			if before.queue == one.queue && !before.started {
				one.excuse = fmt.Sprintf("it was refused next to submission %d, which did not start", before.number)
			}
		}
	}
	m.follow(refused, m.patience)
	for _, one := range refused {
		m.c.Kill(m.t, one.app)
	}
	m.endSome()
}

// ask asks Bursar for the next application.
func (m *matrix) ask(queue string) *submission {
	m.t.Helper()
	one := &submission{number: len(m.all) + 1, queue: queue, user: matrixUsers[m.random.IntN(len(matrixUsers))]}
	m.all = append(m.all, one)
	one.master = matrixSmallest * []int{1, 1, 1, 2, 2, 3, 4, 8}[m.random.IntN(8)]
	if one.number%m.shells == 0 {
		one.master, one.containers, one.each = matrixSmallest, 1+m.random.IntN(3), matrixSmallest*(1+m.random.IntN(6))
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), 30*time.Second)
	defer cancel()
	estimated := m.s.queue(m.t, queue).GetAccount().GetEstimated()
	res, err := m.s.api.Allocations().Allocate(ctx, &bursarv1.AllocateRequest{
		Labels: map[string]string{"user": one.user},
		Resource: &bursarv1.Resource{External: []*bursarv1.ExternalResource{{
			Kind: "yarn", Cluster: "default", Path: queue,
			MemoryBytes: new(int64(one.memory()) << 20), CpuMillis: new(int64(1+one.containers) * 1000),
			Custom: map[string]int64{resource.AMMemory: int64(one.master) << 20, resource.AMCPU: 1000},
		}}},
	})
	if err == nil {
		one.id = res.GetAllocation().GetId()
		return one
	}
	short, is := client.Insufficient(err)
	if !is {
		m.t.Fatalf("%v: %v", one, err)
	}
	one.refused, one.excuse = short, one.excused(short, estimated)
	return one
}

// excused returns the reason why YARN may start an application that Bursar refused: the shortage is
// within YARN's rounding, it is the one container that YARN gives to a user above the limit, or the
// limit was estimated.
func (s *submission) excused(short *bursarv1.InsufficientResources, estimated []string) string {
	var excuses []string
	for _, f := range short.GetShortfalls() {
		lacks := f.GetRequested() - f.GetAvailable()
		_, user := f.GetAccount().GetLabels()["user"]
		switch {
		case slices.Contains(estimated, f.GetDimension()):
			excuses = append(excuses, strings.TrimSpace(fmt.Sprintf("%s is estimated, has %d of %d %s", f.GetDimension(), f.GetAvailable(), f.GetLimit(), f.GetDetail())))
		case (f.GetDimension() == resource.Memory || f.GetDimension() == resource.AMMemory) && lacks <= matrixSmallest<<20:
			excuses = append(excuses, f.GetDimension()+" within what YARN rounds")
		case f.GetDimension() == resource.Memory && user && lacks <= int64(max(s.master, s.each))<<20:
			excuses = append(excuses, "one container above the limit of a user")
		default:
			return ""
		}
	}
	return strings.Join(excuses, ", ")
}

// submit submits it to YARN.
func (m *matrix) submit(one *submission) {
	m.t.Helper()
	if one.containers == 0 {
		one.app = m.c.Submit(m.t, yarn.Application{Queue: one.queue, User: one.user, MemoryMiB: one.master, VCores: 1})
		return
	}
	one.app = m.c.StartShell(m.t, yarn.Shell{Queue: one.queue, User: one.user, Containers: one.containers, MemoryMiB: one.each, VCores: 1})
}

// start submits the granted applications, and waits until they have started or are late.
func (m *matrix) start(granted []*submission) {
	m.t.Helper()
	for _, alone := range []bool{true, false} { // a shell takes seconds to submit
		var some []*submission
		for _, one := range granted {
			if (one.containers == 0) == alone {
				m.submit(one)
				some = append(some, one)
			}
		}
		m.follow(some, matrixBound)
	}
	for _, one := range granted {
		if !one.started {
			m.c.Kill(m.t, one.app)
			m.s.ok(m.t, "release", one.id)
			continue
		}
		ctx, cancel := context.WithTimeout(m.t.Context(), 30*time.Second)
		if _, err := m.s.api.Allocations().Confirm(ctx, &bursarv1.ConfirmRequest{Id: one.id, ApplicationIds: []string{one.app}}); err != nil {
			m.t.Errorf("confirm %v: %v", one, err)
		}
		cancel()
		m.running = append(m.running, one)
	}
}

// follow waits until applications have all their containers, at most patience. It excludes the time
// that a master with containers takes to start and to request them.
func (m *matrix) follow(list []*submission, patience time.Duration) {
	m.t.Helper()
	began := make(map[*submission]time.Time)
	for _, one := range list {
		began[one] = time.Now()
	}
	asks := make(map[*submission]bool) // its master requests containers
	yarn.Await(m.t, fmt.Sprint("these start or not: ", list), func() bool {
		for _, one := range slices.Collect(maps.Keys(began)) {
			now := m.c.Status(m.t, one.app)
			one.said = strings.TrimSpace(now.State + " " + now.Diagnostics)
			if one.containers > 0 && !asks[one] && now.RunningContainers > 0 {
				began[one], asks[one] = time.Now(), now.State == "RUNNING"
			}
			one.took = time.Since(began[one])
			if one.started = now.RunningContainers == 1+one.containers; one.started || now.Ended() || one.took > patience {
				delete(began, one)
			}
		}
		return len(began) == 0
	})
}

// endSome ends a third of the running applications, or all in a queue.
func (m *matrix) endSome() {
	m.t.Helper()
	emptied := ""
	if m.random.IntN(3) == 0 {
		emptied = matrixQueues[m.random.IntN(len(matrixQueues))]
	}
	ends := func(one *submission) bool { return one.queue == emptied || m.random.IntN(3) == 0 }
	m.others = m.kill(m.others, ends)
	m.running = m.kill(m.running, ends)
}

func (m *matrix) end() {
	m.t.Helper()
	all := func(*submission) bool { return true }
	m.others, m.running = m.kill(m.others, all), m.kill(m.running, all)
	m.settle()
	m.s.audit(m.t)
}

// kill kills some applications, and returns the others.
func (m *matrix) kill(list []*submission, which func(*submission) bool) (left []*submission) {
	m.t.Helper()
	var ended []*submission
	for _, one := range list {
		if which(one) {
			ended = append(ended, one)
		} else {
			left = append(left, one)
		}
	}
	apps := make([]string, 0, len(ended))
	for _, one := range ended {
		apps = append(apps, one.app)
	}
	m.c.Kill(m.t, apps...)
	for _, one := range ended {
		if one.id != "" {
			m.s.awaitReleased(m.t, one.id)
		}
	}
	return left
}

// settle waits until Bursar knows the running applications: their number and their owners.
func (m *matrix) settle() {
	m.t.Helper()
	began, last := time.Now(), ""
	m.t.Cleanup(func() {
		if last != "" {
			m.t.Logf("not settled: %s", last)
		}
	})
	for _, queue := range matrixQueues {
		yarn.Await(m.t, queue+" is settled", func() bool {
			ours, others, applications := 0, 0, int32(0)
			for _, one := range slices.Concat(m.running, m.others) {
				if one.queue != queue {
					continue
				}
				applications++
				if one.id != "" {
					ours += one.memory()
				} else if m.c.Status(m.t, one.app).RunningContainers > 0 { // it may wait, too
					others += one.memory()
				}
			}
			q := m.s.queue(m.t, queue)
			if q.GetUnavailable() != "" || q.GetSnapshotTime().AsTime().Before(began) {
				last = queue + ": " + q.GetUnavailable()
				return false
			}
			used, byOthers := int(q.GetUsed().GetMemoryBytes()>>20), int(q.GetAccount().GetUsedByOthers().GetMemoryBytes()>>20)
			last = fmt.Sprintf("%s: %d applications, used %d, by others %d MiB; want %d, %d, %d", queue, q.GetApplications(), used, byOthers, applications, ours+others, others)
			return q.GetApplications() == applications && used == ours+others && byOthers == others
		})
	}
	last = ""
}

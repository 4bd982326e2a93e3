package yarn_test

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
	"github.com/bursar/bursar/test/yarn"
)

// shared are the queues that the parts of oneManager use at the same time: each part has its own
// queue below the root, with a quarter of 64 GiB and 64 cores. root.defaults has Hadoop's default
// limits on applications: masters may use a tenth of the queue, and a user the queue's guarantee,
// which is a fifth. root.few has room for few applications.
var shared = map[string]string{
	"root.queues":                 "full,race,life,ops,made,parts,defaults,few",
	"root.accessible-node-labels": "gpu", "root.accessible-node-labels.gpu.capacity": "100",
	"root.full.capacity": "1w", "root.full.maximum-capacity": "25", "root.full.queues": "f1,f2,twin",
	"root.full.f1.capacity": "1w", "root.full.f1.maximum-capacity": "75", "root.full.f1.user-limit-factor": "100",
	"root.full.f2.capacity": "1w", "root.full.f2.user-limit-factor": "100",
	"root.full.twin.capacity": "1w",
	"root.race.capacity":      "1w", "root.race.maximum-capacity": "25", "root.race.queues": "r1,twin",
	"root.race.r1.capacity": "1w", "root.race.r1.user-limit-factor": "100",
	"root.race.twin.capacity": "1w",
	"root.life.capacity":      "1w", "root.life.maximum-capacity": "25", "root.life.user-limit-factor": "100",
	"root.ops.capacity": "1w", "root.ops.maximum-capacity": "25", "root.ops.queues": "shrinks,stops",
	"root.ops.shrinks.capacity": "1w", "root.ops.shrinks.user-limit-factor": "100",
	"root.ops.stops.capacity": "1w",
	"root.made.capacity":      "1w", "root.made.maximum-capacity": "25", "root.made.auto-queue-creation-v2.enabled": "true",
	"root.made.auto-queue-creation-v2.leaf-template.user-limit-factor": "100",
	"root.parts.capacity": "1w", "root.parts.maximum-capacity": "25", "root.parts.user-limit-factor": "100",
	"root.parts.accessible-node-labels": "gpu", "root.parts.accessible-node-labels.gpu.capacity": "1w",
	"root.defaults.capacity": "2w", "root.defaults.maximum-capacity": "50", "root.defaults.user-limit-factor": "1",
	"root.defaults.maximum-am-resource-percent": "0.1",
	"root.few.capacity":                         "2w", "root.few.user-limit-factor": "0.67", "root.few.maximum-applications": "3",
}

// TestWholeSystem tests Bursar's main purpose with real ResourceManagers: users' commands on one
// side, and YARN's own clients and operators on the other, on the same queues.
func TestWholeSystem(t *testing.T) {
	t.Parallel()
	binary := buildBursar(t)
	t.Run("one ResourceManager", func(t *testing.T) {
		t.Parallel()
		oneManager(t, binary)
	})
	t.Run("two ResourceManagers", func(t *testing.T) {
		t.Parallel()
		twoManagers(t, binary)
	})
}

// oneManager has all activities of users and applications at the same time in one cluster.
func oneManager(t *testing.T, binary string) {
	c := yarn.Start(t, yarn.Options{
		Capacity: shared,
		Nodes:    []yarn.Node{{}, {MemoryMiB: 16384, VCores: 16, Partition: "gpu", Custom: map[string]int{"yarn.io/gpu": 4}}},
	})
	pace := "addresses: \"" + c.Addresses() + "\", interval: 2s, smallestContainer: \"memory=128MiB,cpu=1\""
	file := providersFile(t, [2]string{"default", pace}, [2]string{"quick", pace + ", settle: 0s"})
	s := startDev(t, binary, file)
	s.awaitRead(t)
	t.Run("parts", func(t *testing.T) {
		for name, part := range map[string]func(*testing.T, *yarn.Cluster, *system){
			"a queue that others fill": othersFill, "the last capacity": lastCapacity, "lives of applications": lives,
			"what operators do to queues": operators, "queues made by using them": madeByUsing, "partitions": partition,
			"what is granted starts": grantedStarts,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				part(t, c, s)
			})
		}
		t.Run("providers at run time", func(t *testing.T) {
			t.Parallel()
			atRunTime(t, c, s, file)
		})
	})
	if t.Failed() {
		return
	}
	settled(t, c, s)
}

// awaitRead waits until the queues are known.
func (s *system) awaitRead(t *testing.T) {
	t.Helper()
	yarn.Await(t, "the cluster is read", func() bool {
		return s.bursar(t, "explain", "--external", "yarn:default:nowhere,memory=1GiB").code == 66
	})
}

// settled checks the end state: nothing of ours is left in any queue, and decoding the
// ResourceManager's answer with bursar gives the queues that the coordinator shows.
func settled(t *testing.T, c *yarn.Cluster, s *system) {
	t.Helper()
	id := c.Submit(t, yarn.Application{Queue: "root.full.f1", MemoryMiB: 3072, VCores: 3})
	c.AwaitAllocated(t, id)
	s.awaitQueue(t, "root.full.f1", "limit 12288/12 used 3072/3 ours 0/0 others 3072/3 available 9216/9")
	s.awaitQueue(t, "root", "limit 65536/64 used 3072/3 ours 0/0 others 3072/3 available 62464/61")

	var shown bursarv1.QueueServiceListResponse
	if err := protojson.Unmarshal([]byte(s.ok(t, "queues", "yarn:default", "-o", "json")), &shown); err != nil {
		t.Fatal(err)
	}
	for _, q := range shown.GetQueues() {
		a := q.GetAccount()
		if left := figures(q); !strings.Contains(left, " ours 0/0 ") || a.GetAllocations() != 0 || a.GetWaiting() != 0 || a.GetOverLimit() {
			t.Errorf("%s@%s: %s, %d allocations, %d waiting", q.GetPath(), q.GetPartition(), left, a.GetAllocations(), a.GetWaiting())
		}
	}
	answer := filepath.Join(t.TempDir(), "scheduler.json")
	if err := os.WriteFile(answer, c.Get(t, "scheduler"), 0o600); err != nil {
		t.Fatal(err)
	}
	var decoded struct{ Queues []decodedQueue }
	if err := json.Unmarshal([]byte(s.ok(t, "queues", "decode", "-f", answer, "-o", "json")), &decoded); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(decoded.Queues, sameAs(decoded.Queues, shown.GetQueues())); diff != "" {
		t.Errorf("what decode says (-) and what queues says (+):\n%s", diff)
	}
	c.Kill(t, id)
	s.awaitQueue(t, "root", "limit 65536/64 used 0/0 ours 0/0 others 0/0 available 65536/64")
	s.audit(t)
}

// audit checks the ledger: the accounts of the host and of all queues.
func (s *system) audit(t *testing.T) {
	t.Helper()
	yarn.Await(t, "the audit counts the host and the queues that are listed", func() bool {
		var queues bursarv1.QueueServiceListResponse
		if err := protojson.Unmarshal([]byte(s.ok(t, "queues", "-o", "json")), &queues); err != nil {
			t.Fatal(err)
		}
		var found bursarv1.AuditResponse
		if err := protojson.Unmarshal([]byte(s.ok(t, "audit", "-o", "json")), &found); err != nil {
			t.Fatal(err)
		}
		if len(found.GetViolations()) > 0 {
			t.Fatalf("audit: %v", &found)
		}
		// Another reading may come in between.
		return found.GetAccounts() == int64(1+len(queues.GetQueues()))
	})
}

// decodedQueue is the output of decode about a queue.
type decodedQueue struct {
	Path, Partition                                string
	Limit, Used, Guaranteed                        *decodedQuantity
	AbsoluteCapacity, AbsoluteMaxCapacity          *float64
	Applications, Pending, Active, MaxApplications *int32
	State                                          string
}

type decodedQuantity struct {
	MemoryBytes, CPUMillis *int64
	Custom                 map[string]int64
}

// quantityOf leaves out the dimensions of applications, which decode prints in other fields.
func quantityOf(r *bursarv1.Resource) *decodedQuantity {
	var custom map[string]int64
	for name, n := range r.GetCustom() {
		if resource.OfApplications(name) {
			continue
		}
		if custom == nil {
			custom = make(map[string]int64)
		}
		custom[name] = n
	}
	return &decodedQuantity{r.MemoryBytes, r.CpuMillis, custom}
}

// sameAs returns the coordinator's queues in the order of decode's output, without figures that
// decode does not print: those that an answer has only for other queues.
func sameAs(decoded []decodedQueue, shown []*bursarv1.Queue) []decodedQueue {
	place := func(path, partition string) int {
		return slices.IndexFunc(decoded, func(d decodedQueue) bool { return d.Path == path && d.Partition == partition })
	}
	slices.SortFunc(shown, func(a, b *bursarv1.Queue) int {
		return cmp.Compare(place(a.GetPath(), a.GetPartition()), place(b.GetPath(), b.GetPartition()))
	})
	var same []decodedQueue
	for _, q := range shown {
		s := decodedQueue{
			Path: q.GetPath(), Partition: q.GetPartition(), Limit: quantityOf(q.GetAccount().GetLimit()), Used: quantityOf(q.GetUsed()),
			Guaranteed: quantityOf(q.GetGuaranteed()), AbsoluteCapacity: q.AbsoluteCapacity, AbsoluteMaxCapacity: q.AbsoluteMaxCapacity,
			Applications: q.Applications, Pending: q.Pending, Active: q.Active, MaxApplications: q.MaxApplications, State: q.GetState(),
		}
		if i := place(q.GetPath(), q.GetPartition()); i >= 0 {
			d := decoded[i]
			keepIf(d.Used != nil, &s.Used)
			keepIf(d.Applications != nil, &s.Applications)
			keepIf(d.Pending != nil, &s.Pending)
			keepIf(d.Active != nil, &s.Active)
		}
		same = append(same, s)
	}
	return same
}

// keepIf clears a figure that is not needed.
func keepIf[V any](asked bool, figure **V) {
	if !asked {
		*figure = nil
	}
}

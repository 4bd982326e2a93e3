package ledger

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// wrongInClusters compares what a share has in clusters and of its guarantees there with its
// allocations, and its value, if requests of it wait, with one that is computed anew.
func (l *Ledger) wrongInClusters(s *share) string {
	has := &share{key: s.key, weight: s.weight, guaranteed: s.guaranteed, amounts: s.amounts, promised: make([]promise, len(s.promised))}
	for i := range s.promised {
		has.promised[i].External = s.promised[i].External
	}
	uses := make(map[*cluster]*clusterUse)
	l.entries.Scan(func(_ ID, e *entry) bool {
		if e.share != s || !e.State.Holds() || e.external == nil {
			return true
		}
		has.countParts(e.Entitled.External, 1)
		for i := range e.external.charges {
			if t := &e.external.charges[i]; t.queue.isTop() {
				if uses[t.queue.cluster] == nil {
					uses[t.queue.cluster] = &clusterUse{cluster: t.queue.cluster}
				}
				uses[t.queue.cluster].count(t.vector, 1)
			}
		}
		return true
	})
	for _, u := range s.clusters {
		want := uses[u.cluster]
		if want == nil || fmt.Sprint(u.amounts) != fmt.Sprint(want.amounts) {
			return fmt.Sprintf("share %s has %v in %s; its allocations have %v", s.key, u.amounts, u.cluster.ClusterName, want)
		}
		has.clusters = append(has.clusters, want)
	}
	if len(uses) != len(s.clusters) {
		return fmt.Sprintf("share %s counts in %d clusters; its allocations in %d", s.key, len(s.clusters), len(uses))
	}
	for i := range s.promised {
		if got, want := s.promised[i].has.Vector(), has.promised[i].has.Vector(); !got.EqualTo(want) {
			return fmt.Sprintf("share %s has %s where it is guaranteed %s; its allocations have %s", s.key, got, s.promised[i].External, want)
		}
	}
	if has.revalue(&l.fleet); len(s.groups) > 0 && len(l.readings.clusters) == 0 && has.value != s.value {
		return fmt.Sprintf("share %s has the value %v; want %v", s.key, s.value, has.value)
	}
	return ""
}

func TestTheCapacityOfAClusterIsWhatItsTopQueuesMayHave(t *testing.T) {
	queue := func(path string, limit resource.Vector) QueueReport { return QueueReport{Path: path, Limit: limit} }
	size := resource.Vector{}.WithMemory(10).WithCPU(4)
	for what, test := range map[string]struct {
		queues []QueueReport
		want   fleet
	}{
		"nothing":                  {nil, fleet{}},
		"one, and what is below":   {[]QueueReport{queue("root", size), queue("root.a", size)}, fleet{memory: 10, cpu: 4}},
		"several":                  {[]QueueReport{queue("a", size), queue("b", size)}, fleet{memory: 20, cpu: 8}},
		"partitions":               {[]QueueReport{queue("root", size), {Path: "root", Partition: "g", Limit: size}}, fleet{memory: 20, cpu: 8}},
		"memory that is unlimited": {[]QueueReport{queue("a", size), queue("b", resource.Vector{}.WithCPU(1))}, fleet{cpu: 5}},
		"cpu that is unlimited":    {[]QueueReport{queue("a", size), queue("b", resource.Vector{}.WithMemory(1))}, fleet{memory: 11}},
		"countables": {
			[]QueueReport{queue("a", size.With("gpu", 2).With(resource.AMMemory, 5).With("fpga", 0)), queue("b", size.With("gpu", 3).WithInstances(7))},
			fleet{memory: 20, cpu: 8, custom: counts{"gpu": 5}},
		},
	} {
		r := ClusterReport{Queues: test.queues}
		if err := r.Prepare(); err != nil {
			t.Fatal(err)
		}
		if got := r.indexed.capacity; !got.equal(&test.want) {
			t.Errorf("%s: %+v; want %+v", what, got, test.want)
		}
	}
}

func TestTheCapacityOfAClusterDoesNotOverflow(t *testing.T) {
	var r ClusterReport
	for i := range 2000 {
		most := resource.Vector{}.WithMemory(math.MaxInt64).WithCPU(resource.MaxQuantity).With("gpu", resource.MaxQuantity)
		r.Queues = append(r.Queues, QueueReport{Path: fmt.Sprintf("q%d", i), Limit: most})
	}
	want := fleet{memory: math.MaxInt64, cpu: math.MaxInt64, custom: counts{"gpu": math.MaxInt64}}
	if got := r.topLimits(); !got.equal(&want) {
		t.Errorf("%+v", got)
	}
}

// waitingUsers is a ledger in which users have something in a cluster, and each has a request that
// waits behind one account.
func waitingUsers(t *testing.T, users int) (l *Ledger, report func(memory int64), check func(error)) {
	t.Helper()
	l = New(Config{}, noPlacer{})
	check = func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	prod := ClusterName{"yarn", "prod"}
	check(l.PutProvider(1, ProviderRecord{ClusterName: prod}))
	report = func(memory int64) {
		t.Helper()
		limit := resource.Vector{}.WithMemory(memory).WithCPU(1000)
		check(l.ReportCluster(1, ClusterReport{ClusterName: prod, Asked: 1, GoodFor: time.Hour, Queues: []QueueReport{{Path: "root", Limit: limit}}}))
	}
	report(1000)
	available := int64(1000)
	_, err := l.Register(1, RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(available)})
	check(err)
	_, err = l.Sync(1, SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 1, Full: true, Sample: &Sample{MemoryAvailable: &available}})
	check(err)
	check(l.PutQuota(1, Quota{Limit: resource.Vector{}.WithInstances(int64(users))}))
	for round := range 2 {
		for i := range users {
			_, err := l.Allocate(1, AllocateCommand{
				Actor: identity.Local(), Labels: label.Of(userKey, fmt.Sprint("u", i)), Wishes: &Wishes{Host: "h1"}, Wait: time.Hour * time.Duration(round), Async: true,
				Resource: resource.NewResource(resource.Vector{}.WithInstances(1), resource.External{
					Address: resource.Address{Kind: "yarn", Cluster: "prod", Path: "root"}, Vector: resource.Vector{}.WithMemory(int64(1 + i%5)).WithCPU(int64(1 + i%3)),
				}),
			})
			check(err)
		}
	}
	return l, report, check
}

// A cluster with another capacity changes the place of everybody who has something there. That is
// done in steps, and is right in the end, whoever comes and goes between two steps.
func TestAClusterThatGrowsRevaluesSharesInSteps(t *testing.T) {
	const users, step = 50, 16
	l, report, check := waitingUsers(t, users)
	l.readings.step = step
	for round, memory := range []int64{1000, 400, 4000, 0, 700} {
		report(memory)
		steps := 0
		for due, set := l.NextTimer(); set && due <= l.now; due, set = l.NextTimer() {
			if steps++; steps == 2 {
				id, _, _ := l.entries.Min()
				_, err := l.Release(1, ReleaseCommand{Actor: identity.Local(), ID: id})
				check(err)
			}
			l.Advance(1)
		}
		if round > 0 && steps < users/step {
			t.Errorf("a capacity of %d takes %d steps", memory, steps)
		}
		if got := l.clusters[ClusterName{"yarn", "prod"}].capacity.memory; got != memory {
			t.Fatalf("the capacity is %d; want %d", got, memory)
		}
		if wrong := l.CheckShareUses(); wrong != "" {
			t.Fatalf("after a capacity of %d: %s", memory, wrong)
		}
	}
}

// Nothing is known of a cluster with other settings: what somebody has there does not count until
// it is read again.
func TestAClusterWithOtherSettingsHasNoCapacity(t *testing.T) {
	l, report, check := waitingUsers(t, 3)
	prod := ClusterName{"yarn", "prod"}
	check(l.PutProvider(1, ProviderRecord{ClusterName: prod, Settings: map[string]string{"a": "b"}}))
	for _, s := range l.shares {
		if s.value != aboveGuarantee {
			t.Errorf("share %s has the value %v without a capacity", s.key, s.value-aboveGuarantee)
		}
	}
	report(1000)
	for _, s := range l.shares {
		if s.value <= aboveGuarantee {
			t.Errorf("share %s has no value with a capacity", s.key)
		}
	}
	if wrong := l.CheckShareUses(); wrong != "" {
		t.Error(wrong)
	}
}

// What is not to be relied on does not change what a cluster has.
func TestAReportThatCannotBeReliedOnLeavesTheCapacity(t *testing.T) {
	l, _, check := waitingUsers(t, 3)
	prod := ClusterName{"yarn", "prod"}
	check(l.ReportCluster(1, ClusterReport{ClusterName: prod, Asked: 1, GoodFor: time.Hour, Untrusted: "failed over"}))
	l.ClusterSilent(1, prod, "away", true)
	if got := l.clusters[prod].capacity; got.memory != 1000 {
		t.Errorf("the capacity is %+v", got)
	}
}

// ShareOf is the value of the share of a live allocation: the one that orders its requests, if some
// wait, else one that is computed anew.
func (l *Ledger) ShareOf(id ID) float64 {
	s := *l.entry(id).share
	if len(s.groups) == 0 || l.TakingIn() {
		s.revalue(&l.fleet)
	}
	return s.value
}

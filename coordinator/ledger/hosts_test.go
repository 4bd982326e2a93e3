package ledger_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// A Placer's tables are as long as the largest number of hosts at one time: the slot of a removed
// host is used again.
func TestSlotsOfHostsThatAreGoneAreUsedAgain(t *testing.T) {
	p := newPlainPlacer()
	l := ledger.New(ledger.Config{}, p)
	register := func(ids ...string) {
		for _, id := range ids {
			_, err := l.Register(start, ledger.RegisterCommand{HostID: id, Incarnation: 1})
			must(t, err)
		}
	}
	deregister := func(ids ...string) {
		for _, id := range ids {
			before := l.Revision()
			must(t, l.Deregister(start, id, false))
			if l.Revision() == before {
				t.Errorf("the removal of %s has no revision of its own", id)
			}
		}
	}
	register("h1", "h2", "h3")
	deregister("h2")
	register("h4")
	deregister("h1", "h3")
	register("h5", "h6", "h7")
	var ids []string
	for slot := range ledger.Slot(4) {
		ids = append(ids, p.hosts[slot].ID)
	}
	slices.Sort(ids)
	if want := []string{"h4", "h5", "h6", "h7"}; !slices.Equal(ids, want) || len(p.hosts) != 4 {
		t.Errorf("slots %v have %v; want the first four to have %v", slices.Sorted(maps.Keys(p.hosts)), ids, want)
	}
}

func TestAPlacerIsToldTheLoadPerCore(t *testing.T) {
	for name, test := range map[string]struct {
		capacity resource.Vector
		load     *int64 // in thousandths
		want     int64
	}{
		"two cores":           {resource.Vector{}.WithCPU(2000), new(int64(3000)), 1500},
		"a thousandth of one": {resource.Vector{}.WithCPU(1), new(int64(3)), 3000},
		"no cores":            {resource.Vector{}.WithCPU(0), new(int64(3000)), 0},
		"cores without limit": {resource.Vector{}, new(int64(3000)), 0},
		"a load not known":    {resource.Vector{}.WithCPU(1), nil, 0},
	} {
		p := newPlainPlacer()
		l := ledger.New(ledger.Config{}, p)
		_, err := l.Register(start, ledger.RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: test.capacity})
		must(t, err)
		for sequence, load := range []*int64{new(int64(77)), test.load} {
			_, err = l.Sync(start, ledger.SyncCommand{
				HostID: "h1", Incarnation: 1, Sequence: uint64(sequence) + 1, Full: true, Sample: &ledger.Sample{Load1Millis: load},
			})
			must(t, err)
		}
		if got := p.hosts[0].LoadMillis; got != test.want {
			t.Errorf("%s: %d; want %d", name, got, test.want)
		}
	}
}

func TestHostsAreCountedByTheirState(t *testing.T) {
	at := func(minutes int) ledger.Instant { return start.Add(time.Duration(minutes) * time.Minute) }
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	for _, host := range []struct {
		id         string
		registered int
	}{{"gone", 0}, {"silent", 4}, {"full", 5}, {"worn", 5}, {"open", 5}} {
		_, err := l.Register(at(host.registered), ledger.RegisterCommand{HostID: host.id, Incarnation: 1, Capacity: resource.Vector{}.WithMemory(8)})
		must(t, err)
	}
	available := int64(8)
	for id, refusal := range map[string]string{"full": "its disk is full", "worn": "its disk fails", "open": ""} {
		_, err := l.Sync(at(5), ledger.SyncCommand{
			HostID: id, Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available, Refusal: refusal},
		})
		must(t, err)
	}
	must(t, l.PutProvider(at(5), ledger.ProviderRecord{ClusterName: yarnProd}))
	must(t, l.ReportCluster(at(5), ledger.ClusterReport{ClusterName: yarnProd, Asked: at(5), GoodFor: time.Hour, Queues: []ledger.QueueReport{{Path: "root"}, {Path: "root.a"}}}))
	want := ledger.Counts{HostsHealthy: 3, HostsRefusing: 2, HostsSuspect: 1, HostsLost: 1, Queues: 2}
	if diff := cmp.Diff(want, l.Counts(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A host that has registered and then reports nothing is silent from then on.
func TestAHostThatNeverReportsBecomesSuspect(t *testing.T) {
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	_, err := l.Register(start, ledger.RegisterCommand{HostID: "h1", Incarnation: 1})
	must(t, err)
	l.Advance(start.Add(15*time.Second - 1))
	if h, _ := l.Host("h1"); h.State != ledger.Healthy {
		t.Errorf("within three intervals it is %s", h.State)
	}
	l.Advance(start.Add(15 * time.Second))
	if h, _ := l.Host("h1"); h.State != ledger.Suspect {
		t.Errorf("after three intervals it is %s", h.State)
	}
}

package ledger_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// licences is a cluster with queues that list no memory, so that nothing limits that.
var licences = ledger.ClusterName{Kind: "exec", Cluster: "cad"}

func withLicences(t *testing.T) (w *liveWorld, parts []resource.External) {
	t.Helper()
	w = newLiveWorld(t, ledger.Config{FullPaths: []string{"exec"}}, "h1", "h2")
	must(t, w.ledger.PutProvider(w.now, ledger.ProviderRecord{ClusterName: licences}))
	r := ledger.ClusterReport{ClusterName: licences, Asked: w.now, GoodFor: time.Hour}
	for i := range 3 {
		path := fmt.Sprint("licences", i)
		r.Queues = append(r.Queues, ledger.QueueReport{Path: path, Limit: resource.Vector{}.With("seats", 10)})
		parts = append(parts, resource.External{Address: resource.Address{Kind: "exec", Cluster: "cad", Path: path}, Vector: resource.Vector{}.WithMemory(resource.MaxQuantity)})
	}
	must(t, w.ledger.ReportCluster(w.now, r))
	return w, parts
}

func everyUser(t *testing.T) label.Selector {
	t.Helper()
	selector, err := label.ParseSelector("user=*")
	must(t, err)
	return selector
}

// What nothing limits adds up. No number of callers gets a sum to overflow: neither that of a
// guarantee or of a rule that comes later, nor after a restart.
func TestQuantitiesWithoutALimitOverflowNoSum(t *testing.T) {
	w, parts := withLicences(t)
	of := resource.External{Address: resource.Address{Kind: "exec", Cluster: "*", Path: "*"}, Vector: resource.Vector{}.WithMemory(1)}
	rule := ledger.Quota{Selector: everyUser(t), GuaranteedExternal: resource.NewLimits(of)}
	must(t, w.ledger.PutQuota(w.now, rule))
	granted, refused := 0, 0
	for i := range 700 {
		caller := fmt.Sprint("c", i)
		_, err := w.ledger.Allocate(w.now, ledger.AllocateCommand{
			Actor: identity.Actor{Name: caller, Anyone: true}, Labels: label.Of("user", "mallory"), Resource: resource.NewResource(resource.Vector{}.WithMemory(1), parts...),
		})
		if much, ok := errors.AsType[*ledger.TooMuchError](err); ok && much.Caller == "all callers" {
			refused++
		} else {
			must(t, err)
			granted++
		}
	}
	if granted < 64 || refused == 0 {
		t.Errorf("%d granted, %d refused", granted, refused)
	}
	rule.External = resource.NewLimits(of)
	must(t, w.ledger.PutQuota(w.now, rule))
	if found := w.ledger.Audit(); len(found) > 0 {
		t.Error(found)
	}
	c := w.ledger.Changes()
	again := ledger.New(ledger.Config{FullPaths: []string{"exec"}}, newPlainPlacer())
	must(t, again.Restore(w.now, ledger.Snapshot{Revision: c.Revision, LastID: c.LastID, Quotas: []ledger.Quota{rule}, Hosts: c.Hosts, Allocations: c.Transitions, Providers: c.Providers}))
	if found := again.Audit(); len(found) > 0 {
		t.Error(found)
	}
}

// One caller, and one host's agent with all who call it, can have so much of it that others still
// get theirs, and that engines which run are still taken over.
func TestQuantitiesOfOneCallerLeaveRoomForOthers(t *testing.T) {
	w, parts := withLicences(t)
	allocate := func(caller, user, host string, quantity int64) error {
		c := ledger.AllocateCommand{
			Actor: identity.Actor{Name: caller, Anyone: true}, Labels: label.Of("user", user),
			Resource: resource.NewResource(resource.Vector{}.WithMemory(1), resource.External{Address: parts[0].Address, Vector: resource.Vector{}.WithMemory(quantity)}),
		}
		if host != "" {
			c.Wishes = &ledger.Wishes{Host: host}
		}
		_, err := w.ledger.Allocate(w.now, c)
		return err
	}
	fill := func(caller, host string, quantity int64) {
		t.Helper()
		for range 40 {
			err := allocate(caller, "mallory", host, quantity)
			if _, ok := errors.AsType[*ledger.TooMuchError](err); ok {
				return
			}
			must(t, err)
		}
		t.Errorf("%s gets 40 times %d", caller, quantity)
	}
	fill("mallory", "", resource.MaxQuantity)
	fill("mallory@h1", "h1", 1<<45)
	fill("eve@h1", "h1", 1<<45)
	if err := allocate("carol@h1", "carol", "h1", 1<<47); err == nil {
		t.Error("callers of h1 have no bound together")
	}
	must(t, allocate("bob", "bob", "h2", 1<<40))
	must(t, allocate("bob@h2", "bob", "h2", 1<<40))
	running := ledger.EngineReport{ID: 1000, Grant: &ledger.Allocation{
		Process: ledger.Process{PID: 10, StartTime: 1},
		Labels:  label.Of("user", "bob"), Requested: resource.NewResource(resource.Vector{}.WithMemory(1 << 30)), Entitled: resource.NewResource(resource.Vector{}.WithMemory(1 << 30)),
	}}
	available := int64(1 << 50)
	_, err := w.ledger.Sync(w.now, ledger.SyncCommand{
		HostID: "h2", Incarnation: 1, Sequence: 2, Full: true, Seen: w.ledger.Revision(),
		Sample: &ledger.Sample{Time: w.now, MemoryAvailable: &available}, Engines: []ledger.EngineReport{running},
	})
	must(t, err)
	if _, there := w.ledger.Get(1000); !there {
		t.Error("the engine that runs on h2 is not taken over")
	}
	if found := w.ledger.Audit(); len(found) > 0 {
		t.Error(found)
	}
}

// The quantities of a user and of all subordinate ids of that user count together.
func TestQuantitiesOfSubordinateIDsCountOnTheirOwner(t *testing.T) {
	w, parts := withLicences(t)
	granted := 0
	for id := 100000; id < 100100; id++ {
		acting := strconv.Itoa(id)
		_, err := w.ledger.Allocate(w.now, ledger.AllocateCommand{
			Actor: identity.Actor{Name: acting + "@h1", Users: []string{acting}}, Subordinate: true, Labels: label.Of("user", "mallory"), Wishes: &ledger.Wishes{Host: "h1"},
			Resource: resource.NewResource(resource.Vector{}.WithMemory(1), resource.External{Address: parts[0].Address, Vector: resource.Vector{}.WithMemory(1 << 45)}),
		})
		if much, ok := errors.AsType[*ledger.TooMuchError](err); ok {
			if much.Caller != `caller "mallory@h1"` || granted == 0 {
				t.Errorf("after %d: %v: want mallory@h1 refused", granted, err)
			}
			return
		}
		must(t, err)
		granted++
	}
	t.Errorf("%d ids got as much as one caller may have", granted)
}

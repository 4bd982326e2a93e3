package coordinator

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
	"github.com/bursar/bursar/test/fakecluster"
)

// knows lets a coordinator read clusters of a kind.
func knows(kind *fakecluster.Kind) func(*Server) {
	return func(s *Server) { s.pollers.Kinds = providers.Kinds{kind} }
}

// putProvider puts a provider of a cluster at an address. If it is there already it is read again
// at once.
func (f *fixture) putProvider(cluster, address string) {
	f.tb.Helper()
	_, err := f.queues.PutProvider(f.tb.Context(), &bursarv1.PutProviderRequest{
		Provider: &bursarv1.Provider{Kind: "fake", Cluster: cluster, Settings: map[string]string{"address": address}},
	})
	if err != nil {
		f.tb.Fatal(err)
	}
}

// providers are all providers, by cluster.
func (f *fixture) providers() map[string]*bursarv1.Provider {
	f.tb.Helper()
	res, err := f.queues.ListProviders(f.tb.Context(), &bursarv1.ListProvidersRequest{})
	if err != nil {
		f.tb.Fatal(err)
	}
	list := make(map[string]*bursarv1.Provider)
	for _, p := range res.GetProviders() {
		list[p.GetCluster()] = p
	}
	return list
}

// read waits until a cluster is known.
func (f *fixture) read(cluster string) {
	f.tb.Helper()
	eventually(f.tb, "cluster "+cluster+" is known", func() bool {
		return f.providers()[cluster].GetHealth().GetState() == bursarv1.ProviderHealth_STATE_KNOWN
	})
}

// awaitRead waits until the cluster prod has been read once more, from now on.
func (f *fixture) awaitRead() {
	f.tb.Helper()
	before := time.Now()
	f.putProvider("prod", "here")
	eventually(f.tb, "the cluster is read again", func() bool {
		h := f.providers()["prod"].GetHealth()
		return h.GetSnapshotTime().AsTime().After(before) || h.GetFailureTime().AsTime().After(before)
	})
}

// external is a request with a part in a queue.
func external(id, path string, bytes int64) *bursarv1.AllocateRequest {
	req := request(id, mib)
	req.Resource.External = []*bursarv1.ExternalResource{{Kind: "fake", Path: path, MemoryBytes: &bytes}}
	return req
}

// queueOf starts a coordinator with a host and a cluster that it knows.
func queueOf(t *testing.T, config Config, s store.Store) (*fixture, *fakecluster.Cluster) {
	t.Helper()
	kind := fakecluster.New()
	f := start(t, config, s, knows(kind))
	f.host("h1", gib)
	f.putProvider("prod", "here")
	f.read("prod")
	return f, kind.Cluster("here")
}

// shortfall is the first that a refusal names.
func shortfall(t *testing.T, err error, code connect.Code) *bursarv1.Shortfall {
	t.Helper()
	m, ok := detail[*bursarv1.InsufficientResources](err)
	if !ok || connect.CodeOf(err) != code || len(m.GetShortfalls()) == 0 {
		t.Fatalf("got %v, want %s with its shortfalls", err, code)
	}
	return m.GetShortfalls()[0]
}

func (f *fixture) refused(req *bursarv1.AllocateRequest) error {
	f.tb.Helper()
	res, err := f.allocations.Allocate(f.tb.Context(), req)
	if err == nil {
		f.tb.Fatalf("granted: %v", res)
	}
	return err
}

func (f *fixture) queue(path string) *bursarv1.Queue {
	f.tb.Helper()
	res, err := f.queues.Get(f.tb.Context(), &bursarv1.QueueServiceGetRequest{Kind: "fake", Path: path})
	if err != nil {
		f.tb.Fatal(err)
	}
	return res.GetQueue()
}

func TestAQueueAndThoseAboveItGrantAndRefuse(t *testing.T) {
	f, here := queueOf(t, Config{}, nil)
	here.With(func(c *fakecluster.Cluster) { c.Queues[0] = fakecluster.NewQueue("root", 6*gib) })
	f.awaitRead()
	a := f.allocate(external("a", "a", 3*gib))
	part := a.GetEntitled().GetExternal()[0]
	if part.GetCluster() != "prod" || part.GetPath() != "root.a" || a.GetRequested().GetExternal()[0].GetPath() != "a" {
		t.Errorf("%v", a)
	}
	s := shortfall(t, f.refused(external("", "root.a", 2*gib)), connect.CodeResourceExhausted)
	if s.GetAccount().GetKind() != bursarv1.AccountKind_ACCOUNT_KIND_QUEUE || s.GetAccount().GetLabels()["path"] != "root.a" || s.GetAvailable() != gib {
		t.Errorf("%v", s)
	}
	s = shortfall(t, f.refused(external("", "root.b", 4*gib)), connect.CodeResourceExhausted)
	if s.GetAccount().GetLabels()["path"] != "root" || s.GetAvailable() != 3*gib || s.GetLimit() != 6*gib {
		t.Errorf("%v", s)
	}
	if s := shortfall(t, f.refused(external("", "root.b", 5*gib)), connect.CodeResourceExhausted); s.GetNote() != "never" {
		t.Errorf("%v", s)
	}
	q := f.queue("b")
	if q.GetAvailable().GetMemoryBytes() != 3*gib || q.GetParent() != "root" || q.GetState() != "RUNNING" || q.GetUnavailable() != "" || q.GetSnapshotTime() == nil {
		t.Errorf("%v", q)
	}
	if root := f.queue("root"); root.GetAccount().GetReserved().GetMemoryBytes() != 3*gib || root.GetAccount().GetAllocations() != 1 {
		t.Errorf("%v", root)
	}
	x, err := f.allocations.Explain(t.Context(), &bursarv1.ExplainRequest{Request: external("", "root.b", 4*gib)})
	if err != nil || x.GetVerdict() != bursarv1.ExplainResponse_VERDICT_WAITS || !strings.Contains(x.GetSummary(), "fake:prod:root") {
		t.Errorf("%v, %v", x, err)
	}
	f.release(a.GetId())
	f.allocate(external("", "root.b", 4*gib))
	f.audited()
}

// A request id is for one request, and what it asks of queues is a part of that.
func TestTheSameRequestIdWithAnotherPartIsAnother(t *testing.T) {
	f, _ := queueOf(t, Config{}, nil)
	first := f.allocate(external("id", "root.a", gib))
	if again := f.allocate(external("id", "root.a", gib)); again.GetId() != first.GetId() {
		t.Errorf("%s and %s", first.GetId(), again.GetId())
	}
	other := external("id", "root.a", gib)
	other.Resource.External[0].Partition = "gpu"
	for _, req := range []*bursarv1.AllocateRequest{external("id", "root.b", gib), external("id", "root.a", 2*gib), request("id", mib), other} {
		if err := f.refused(req); connect.CodeOf(err) != connect.CodeAlreadyExists {
			t.Errorf("%v: %v", req.GetResource(), err)
		}
	}
}

func TestASnapshotWakesWhoWaits(t *testing.T) {
	f, here := queueOf(t, Config{}, nil)
	here.Uses(4 * gib)
	f.awaitRead()
	req := external("waits", "root.a", 2*gib)
	req.Wait = seconds(60)
	granted := make(chan error, 1)
	go func() {
		_, err := f.allocations.Allocate(context.WithoutCancel(t.Context()), req)
		granted <- err
	}()
	eventually(t, "it waits behind the queue", func() bool { return f.queue("root.a").GetAccount().GetWaiting() == 1 })
	here.Uses(gib)
	f.awaitRead()
	if err := <-granted; err != nil {
		t.Error(err)
	}
	f.audited()
}

func TestWhatIsNotKnownIsNeitherFullNorFree(t *testing.T) {
	t.Parallel() // it waits
	kind := fakecluster.New()
	f := start(t, Config{}, nil, knows(kind))
	f.host("h1", gib)
	here := kind.Cluster("here")
	here.With(func(c *fakecluster.Cluster) { c.Err = &providers.UnavailableError{Err: errors.New("refused")} })
	f.putProvider("prod", "here")

	// Before it was ever read it is too early to say no.
	s := shortfall(t, f.refused(external("", "root.a", gib)), connect.CodeUnavailable)
	if s.GetNote() != "unknown" || !strings.HasPrefix(s.GetDetail(), "not read yet") {
		t.Errorf("%v", s)
	}
	here.With(func(c *fakecluster.Cluster) { c.Err = nil })
	f.read("prod")
	f.allocate(external("", "root.a", gib))

	// After a failover it is not known any more.
	here.With(func(c *fakecluster.Cluster) {
		c.Err = &providers.UnavailableError{NoneActive: true, Err: errors.New("rm1 standby")}
	})
	eventually(t, "it is not known", func() bool {
		return f.providers()["prod"].GetHealth().GetState() == bursarv1.ProviderHealth_STATE_UNKNOWN
	})
	req := external("", "root.a", gib)
	req.Wait = seconds(1)
	s = shortfall(t, f.refused(req), connect.CodeResourceExhausted)
	if s.GetNote() != "unknown" || !strings.Contains(s.GetDetail(), "rm1 standby") {
		t.Errorf("%v", s)
	}
	h := f.providers()["prod"].GetHealth()
	if !strings.Contains(h.GetMessage(), "rm1 standby") || h.GetFailures() == 0 || h.GetFailureTime() == nil {
		t.Errorf("%v", h)
	}
	if w := f.status().GetWarnings(); len(w) != 1 || !strings.Contains(w[0], "cluster fake:prod cannot be read since") {
		t.Errorf("%v", w)
	}
	// Who needs no queue never notices.
	f.allocate(request("", mib))
	here.With(func(c *fakecluster.Cluster) { c.Err, c.Incarnation = nil, "two" })
	f.read("prod")
	f.allocate(external("", "root.a", gib))
}

func TestQueuesArePagedAndFiltered(t *testing.T) {
	f, here := queueOf(t, Config{}, nil)
	f.putProvider("test", "there")
	f.read("test")
	here.With(func(c *fakecluster.Cluster) {
		for i := range 20 {
			c.Queues = append(c.Queues, fakecluster.NewQueue(fmt.Sprintf("root.a.q%02d", i), gib))
		}
	})
	f.awaitRead()
	list := func(req *bursarv1.QueueServiceListRequest) (names []string) {
		t.Helper()
		for {
			res, err := f.queues.List(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if req.GetPageSize() > 0 && len(res.GetQueues()) > int(req.GetPageSize()) {
				t.Errorf("a page of %d", len(res.GetQueues()))
			}
			for _, q := range res.GetQueues() {
				names = append(names, q.GetCluster()+":"+q.GetPath())
			}
			if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
				return names
			}
		}
	}
	all := list(&bursarv1.QueueServiceListRequest{})
	if len(all) != 26 || all[0] != "prod:root" || all[25] != "test:root.b" {
		t.Errorf("%v", all)
	}
	if diff := cmp.Diff(all, list(&bursarv1.QueueServiceListRequest{PageSize: 4})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(all[23:], list(&bursarv1.QueueServiceListRequest{PageSize: 2, Kind: "fake", Cluster: "test"})); diff != "" {
		t.Error(diff)
	}
	if none := list(&bursarv1.QueueServiceListRequest{Kind: "yarn"}); len(none) != 0 {
		t.Errorf("%v", none)
	}
	page, err := f.queues.List(t.Context(), &bursarv1.QueueServiceListRequest{PageSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.queues.List(t.Context(), &bursarv1.QueueServiceListRequest{Cluster: "test", PageToken: page.GetNextPageToken()}); fieldOf(err) != "page_token" {
		t.Errorf("the token of another query: %v", err)
	}
	if _, err := f.queues.Get(t.Context(), &bursarv1.QueueServiceGetRequest{Kind: "fake", Cluster: "prod", Path: "q07"}); err != nil {
		t.Error(err)
	}
	if _, err := f.queues.Get(t.Context(), &bursarv1.QueueServiceGetRequest{Kind: "fake", Cluster: "prod", Path: "q7"}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("got %v", err)
	}
}

func TestMetricsOfQueuesAreBounded(t *testing.T) {
	f, here := queueOf(t, Config{Limits: Limits{MetricAccounts: 4}}, nil)
	f.putProvider("test", "there")
	f.read("test")
	here.With(func(c *fakecluster.Cluster) { c.Queues[1].Active, c.Queues[1].HeldBack = new(int32(7)), 2 })
	here.Uses(gib)
	f.awaitRead()
	f.allocate(func() *bursarv1.AllocateRequest {
		req := external("", "root.a", 2*gib)
		req.Resource.External[0].Cluster = "prod"
		return req
	}())
	text := f.metrics()
	for _, want := range []string{
		`bursar_queue{cluster="fake:prod",dimension="memory",kind="limit",partition="",queue="root.a"} 4.294967296e+09`,
		`bursar_queue{cluster="fake:prod",dimension="memory",kind="reserved",partition="",queue="root.a"} 2.147483648e+09`,
		`bursar_queue{cluster="fake:prod",dimension="memory",kind="others",partition="",queue="root.a"} 1.073741824e+09`,
		`bursar_queue{cluster="fake:prod",dimension="memory",kind="available",partition="",queue="root.a"} 1.073741824e+09`,
		`bursar_queue{cluster="fake:prod",dimension="memory",kind="cluster_used",partition="",queue="root"} 1.073741824e+09`,
		`bursar_queue_applications{cluster="fake:prod",partition="",queue="root.a",state="active"} 7`,
		`bursar_queue_waiting{cluster="fake:test",partition="",queue="root"} 0`,
		`bursar_cluster_known{cluster="fake:prod"} 1`,
		`bursar_cluster_age_seconds{cluster="fake:test"}`,
		`bursar_cluster_read_seconds_count{cluster="fake:prod"}`,
		`bursar_cluster_read_failures_total{cluster="fake:prod"} 0`,
		`bursar_cluster_read_interval_seconds{cluster="fake:prod"} 5`,
		`bursar_cluster_requests_total{cluster="fake:prod"} `,
		`bursar_cluster_held_back_applications{cluster="fake:prod"} 2`,
		`bursar_cluster_held_back_applications{cluster="fake:test"} 0`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if n := strings.Count(text, "\nbursar_queue_waiting{"); n != 4 {
		t.Errorf("%d queues are shown", n)
	}
	if _, err := f.queues.DeleteProvider(t.Context(), &bursarv1.DeleteProviderRequest{Kind: "fake", Cluster: "test"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no metric names it", func() bool { return !strings.Contains(f.metrics(), "fake:test") })
}

func TestQueueThatGrantsNothingHasNothingAvailable(t *testing.T) {
	f, here := queueOf(t, Config{}, nil)
	here.With(func(c *fakecluster.Cluster) { c.Queues[1].State, c.Queues[1].Closed = "STOPPED", true })
	f.awaitRead()
	for path, open := range map[string]bool{"root": true, "root.a": false} {
		res, err := f.queues.Get(t.Context(), &bursarv1.QueueServiceGetRequest{Kind: "fake", Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if q := res.GetQueue(); (q.GetUnavailable() == "") != open || (q.GetAvailable() != nil) != open {
			t.Errorf("%s: available %v, unavailable %q", path, q.GetAvailable(), q.GetUnavailable())
		}
		series := `bursar_queue{cluster="fake:prod",dimension="memory",kind="available",partition="",queue="` + path + `"}`
		if strings.Contains(f.metrics(), series) != open {
			t.Errorf("%s: whether there is a metric of what is available: want %t", path, open)
		}
	}
}

func TestOnlyTheLeaderReadsClusters(t *testing.T) {
	kind := fakecluster.New()
	file := filepath.Join(t.TempDir(), "providers.yaml")
	writeFile(t, file, providersYAML)
	m := &team{fakeElection: newFakeElection(), t: t, memory: storetest.NewMemory("shared")}
	for range 2 {
		m.members = append(m.members, start(t, Config{ProvidersFile: file}, m.memory.Open(), knows(kind), func(server *Server) {
			server.elect = func(self Self) (election.Election, error) {
				return &candidate{fakeElection: m.fakeElection, self: self}, nil
			}
		}))
	}
	leader, standbys := m.led()
	standby := standbys[0]
	standby.host("h1", gib)
	standby.putProvider("test", "there")
	standby.read("prod")
	standby.read("test")
	if n := kind.ProvidersOpen(); n != 2 {
		t.Errorf("%d providers are open for two clusters", n)
	}
	standby.allocate(external("", "root.a", gib))

	// Who stands by knows what we have been granted, and not what the cluster says.
	stale, err := standby.queues.List(t.Context(), &bursarv1.QueueServiceListRequest{AllowStale: true, Cluster: "prod"})
	if err != nil || len(stale.GetQueues()) != 2 {
		t.Fatalf("%v, %v", stale, err)
	}
	q := stale.GetQueues()[1]
	if q.GetPath() != "root.a" || q.GetAccount().GetReserved().GetMemoryBytes() != gib || q.GetAccount().GetLimit() != nil || q.GetUnavailable() == "" || q.GetSnapshotTime() != nil {
		t.Errorf("%v", q)
	}
	m.bar(leader.url, true)
	m.takeAway()
	next, _ := m.led()
	if next != standby {
		t.Fatal("who is barred leads")
	}
	next.read("prod")
	next.read("test")
	eventually(t, "who led has stopped", func() bool { return kind.ProvidersOpen() == 2 })
	if q := next.queue("root.a"); q.GetAccount().GetReserved().GetMemoryBytes() != gib || q.GetAccount().GetLimit().GetMemoryBytes() != 4*gib {
		t.Errorf("%v", q)
	}
	if p := leader.providers(); len(p) != 2 || p["prod"].GetSource() != "file:"+file {
		t.Errorf("through who led: %v", p)
	}
}

// An engine that is known by its application lives as long as that, and what that holds is counted
// once.
func TestAnEngineEndsWithItsApplication(t *testing.T) {
	f, here := queueOf(t, Config{}, nil)
	a := f.allocate(external("", "root.a", 3*gib))
	res, err := f.allocations.Confirm(t.Context(), &bursarv1.ConfirmRequest{Id: a.GetId(), ApplicationIds: []string{"application_1"}})
	if err != nil || res.GetAllocation().GetEntitled().GetExternal()[0].GetMemoryBytes() != 3*gib {
		t.Fatalf("%v, %v", res, err)
	}
	here.With(func(c *fakecluster.Cluster) {
		c.Applications["application_1"] = providers.Application{
			Known: true, Queue: "root.a", Allocated: map[string]resource.Vector{providers.AnyPartition: resource.Vector{}.WithMemory(3 * gib)},
		}
	})
	here.Uses(3 * gib)
	f.awaitRead()
	f.awaitRead() // what it holds is known once two answers say so
	if q := f.queue("root.a"); q.GetAccount().GetUsed().GetMemoryBytes() != 3*gib || q.GetAccount().GetUsedByOthers().GetMemoryBytes() != 0 || q.GetAvailable().GetMemoryBytes() != gib {
		t.Errorf("%v", q)
	}
	if n := f.providers()["prod"].GetHealth().GetApplications(); n != 1 {
		t.Errorf("%d applications are asked for", n)
	}
	part := &bursarv1.Resource{External: []*bursarv1.ExternalResource{{Kind: "fake", Path: "root.a", MemoryBytes: quantity(5 * gib)}}}
	_, err = f.allocations.Resize(t.Context(), &bursarv1.ResizeRequest{Id: a.GetId(), Entitled: part})
	if err == nil {
		t.Error("it was given more than the queue may have")
	}
	part.External[0].MemoryBytes = quantity(2 * gib)
	resized, err := f.allocations.Resize(t.Context(), &bursarv1.ResizeRequest{Id: a.GetId(), Entitled: part})
	if err != nil || resized.GetAllocation().GetEntitled().GetExternal()[0].GetMemoryBytes() != 2*gib {
		t.Errorf("%v, %v", resized, err)
	}
	here.With(func(c *fakecluster.Cluster) {
		c.Applications["application_1"] = providers.Application{Known: true, Ended: true, Queue: "root.a"}
	})
	here.Uses(0)
	f.awaitRead()
	eventually(t, "it has ended", func() bool { return f.get(a.GetId()).GetState() == bursarv1.AllocationState_ALLOCATION_STATE_RELEASED })
	if got := f.get(a.GetId()); got.GetReason() != "its application ended" {
		t.Errorf("%v", got)
	}
	f.allocate(external("", "root.a", 4*gib))
	f.audited()
}

package coordinator

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func quotaFor(selector map[string]string, custom string) *bursarv1.Quota {
	return &bursarv1.Quota{Selector: selector, Limit: &bursarv1.Resource{Custom: map[string]int64{custom: 1}}}
}

// A rule for a dimension that nothing has is refused by its field unless it is forced, and then
// says so as long as that is the case.
func TestAnUndeclaredDimensionIsRefusedUnlessForced(t *testing.T) {
	f := start(t, Config{Dimensions: []string{"licence"}}, nil)
	ctx := t.Context()
	put := func(q *bursarv1.Quota, force bool) (*bursarv1.Quota, error) {
		res, err := f.quotas.Put(ctx, &bursarv1.PutRequest{Quota: q, Force: force})
		return res.GetQuota(), err
	}
	everybody := map[string]string{"user": "*"}
	_, err := put(quotaFor(everybody, "memroy"), false)
	expect(t, "a misspelt one", err, connect.CodeInvalidArgument,
		`quota.limit.memroy: "memroy": want memory, or a dimension that a host, an external cluster or the coordinator's configuration (dimensions) has; force (--force) sets it all the same`)
	if field, ok := detail[*bursarv1.InvalidField](err); !ok || field.GetField() != "quota.limit.memroy" {
		t.Errorf("the detail is %v; want one about quota.limit.memroy", field)
	}
	_, err = f.quotas.Apply(ctx, &bursarv1.ApplyRequest{Quotas: []*bursarv1.Quota{userQuota("alice", 1), quotaFor(everybody, "cores")}})
	expect(t, "in a set", err, connect.CodeInvalidArgument, `quotas[1].limit.cores: "cores": want cpu, or`)
	if q, err := put(quotaFor(everybody, "licence"), false); err != nil || len(q.GetUndeclaredDimensions()) > 0 {
		t.Errorf("one of the configuration: %v, %v", q, err)
	}
	q, err := put(quotaFor(everybody, "gpu"), true)
	if err != nil || !slices.Equal(q.GetUndeclaredDimensions(), []string{"gpu"}) {
		t.Errorf("forced: %v, %v; want that gpu is not declared", q, err)
	}
	shown := func() []string {
		t.Helper()
		res, err := f.quotas.List(ctx, &bursarv1.QuotaServiceListRequest{})
		one, err2 := f.quotas.Get(ctx, &bursarv1.QuotaServiceGetRequest{Selector: everybody})
		if err != nil || err2 != nil || len(res.GetQuotas()) != 1 {
			t.Fatalf("%v, %v, %v", res, err, err2)
		}
		if got := res.GetQuotas()[0].GetUndeclaredDimensions(); !slices.Equal(got, one.GetQuota().GetUndeclaredDimensions()) {
			t.Errorf("List shows %q, Get %q", got, one.GetQuota().GetUndeclaredDimensions())
		}
		return one.GetQuota().GetUndeclaredDimensions()
	}
	if got := shown(); !slices.Equal(got, []string{"gpu"}) {
		t.Errorf("shown are %q; want gpu", got)
	}
	warned := func() bool {
		return strings.Contains(strings.Join(f.status().GetWarnings(), "\n"), "quota user=* of api is for gpu")
	}
	eventually(t, "status warns", warned)
	if _, err := f.hosts.Register(ctx, &bursarv1.RegisterRequest{
		HostId: "h1", Incarnation: 1, Capacity: &bursarv1.Resource{MemoryBytes: quantity(gib), Custom: map[string]int64{"gpu": 1}},
	}); err != nil {
		t.Fatal(err)
	}
	if got := shown(); len(got) > 0 {
		t.Errorf("after a host with gpu registered, shown are %q", got)
	}
	eventually(t, "status is clear", func() bool { return !warned() })
}

// In a watched file such a rule is kept, and status warns of it.
func TestAnUndeclaredDimensionInAFileIsAWarning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quotas.yaml")
	if err := os.WriteFile(path, []byte("quotas:\n- selector: {user: alice}\n  limit: {memroy: 2}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := start(t, Config{QuotaFiles: []string{path}}, nil)
	eventually(t, "status warns", func() bool {
		return strings.Contains(strings.Join(f.status().GetWarnings(), "\n"), "quota user=alice of file:"+path+" is for memroy, and no host, external cluster or configuration (dimensions) has that: did you mean memory?")
	})
}

// There are no patterns in selectors: a rule with one would match nothing. One that is stored
// stays, and can be read and deleted.
func TestAPatternInASelectorIsRefused(t *testing.T) {
	f := start(t, Config{}, nil)
	ctx := t.Context()
	for _, value := range []string{"al*", "*ice", "a*e", "**"} {
		q := userQuota(value, 1)
		_, err := f.quotas.Put(ctx, &bursarv1.PutRequest{Quota: q})
		expect(t, value, err, connect.CodeInvalidArgument, `quota.selector[user]: "`+value+`": want "*" alone`)
		_, err = f.quotas.Apply(ctx, &bursarv1.ApplyRequest{Quotas: []*bursarv1.Quota{q}})
		expect(t, value, err, connect.CodeInvalidArgument, `quotas[0].selector[user]: "`+value+`": want "*" alone`)
		_, err = f.quotas.Delete(ctx, &bursarv1.DeleteRequest{Selector: q.GetSelector()})
		expect(t, value, err, connect.CodeNotFound, "no such quota")
	}
	for _, name := range []string{"", "memory", "1gpu"} {
		err := Config{Dimensions: []string{"gpu", name}}.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), "dimensions[1]: ") {
			t.Errorf("the dimension %q: %v; want dimensions[1] refused", name, err)
		}
	}
}

// Watchers see when a transition was made, and by whom.
func TestWatchersSeeWhenAndByWhom(t *testing.T) {
	f := start(t, Config{}, nil)
	a := f.agent("h1")
	_, next := f.follow(&bursarv1.AllocationServiceWatchRequest{})
	began := f.status().GetRevision()
	id := a.engine()
	for _, step := range []struct{ what, actor string }{{"reserved", "local"}, {"confirmed", "local"}} {
		if m := next(); m.GetActor() != step.actor || !m.GetTime().IsValid() || m.GetTime().AsTime().Before(m.GetAllocation().GetCreateTime().AsTime()) {
			t.Errorf("%s: by %q at %v; want by %q", step.what, m.GetActor(), m.GetTime(), step.actor)
		}
	}
	a.beat(func(req *bursarv1.SyncRequest) { req.Ended = []*bursarv1.EngineEnd{{AllocationId: id}} })
	if m := next(); m.GetActor() != "host:h1" || m.GetTime().AsTime() != m.GetAllocation().GetEndTime().AsTime() {
		t.Errorf("its end: by %q at %v; want by host:h1 at %v", m.GetActor(), m.GetTime(), m.GetAllocation().GetEndTime())
	}
	f.put(userQuota("alice", 1))
	stream, err := f.cluster.Watch(t.Context(), &bursarv1.ClusterServiceWatchRequest{AfterRevision: began})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for stream.Receive() {
		m := stream.Msg()
		if m.GetChange() != nil && (m.GetActor() == "" || m.GetTime() == nil) {
			t.Errorf("%v: want its time and actor", m)
		}
		if m.GetQuota() != nil {
			return
		}
	}
	t.Errorf("the watch ended: %v", stream.Err())
}

// What an engine used at its end and at most is in its history, and why it could not be stopped is
// shown in one clean line while that is so.
func TestTheHistoryHasWhatAnEngineUsed(t *testing.T) {
	f := start(t, Config{}, nil)
	a := f.agent("h1")
	id := a.engine()
	a.beat(func(req *bursarv1.SyncRequest) {
		req.Engines = []*bursarv1.EngineReport{{AllocationId: id, Measured: memory(300 * mib), StopError: "pid 100\x1b[31m is\nof another user" + strings.Repeat("!", 900)}}
	})
	if got := f.get(id).GetStopError(); !strings.HasPrefix(got, "pid 100 [31m is of another user!!") || len(got) != 512 {
		t.Errorf("the stop failed: %q", got)
	}
	a.beat(func(req *bursarv1.SyncRequest) {
		req.Ended = []*bursarv1.EngineEnd{{AllocationId: id, Measured: memory(200 * mib), MeasuredPeak: &bursarv1.Resource{MemoryBytes: quantity(400 * mib), CpuMillis: quantity(900)}}}
	})
	got := f.get(id)
	if got.GetState() != released || got.GetMeasured().GetMemoryBytes() != 200*mib || got.GetMeasuredPeak().GetMemoryBytes() != 400*mib || got.GetMeasuredPeak().GetCpuMillis() != 900 {
		t.Errorf("after its end: %v", got)
	}
	if got.GetStopError() != "" {
		t.Errorf("it ended after all: %q", got.GetStopError())
	}
}

// Two agents with the same machine id and boot id are on one machine.
func TestHostsOnOneMachineAreWarnedOf(t *testing.T) {
	f := start(t, Config{}, nil)
	for _, id := range []string{"h1", "h2"} {
		if _, err := f.hosts.Register(t.Context(), &bursarv1.RegisterRequest{
			HostId: id, Incarnation: 1, Capacity: memory(gib), MachineId: "machine", BootId: "boot", PidNamespace: "ns",
		}); err != nil {
			t.Fatal(err)
		}
	}
	res, err := f.hosts.Get(t.Context(), &bursarv1.HostServiceGetRequest{Id: "h1"})
	h := res.GetHost()
	if err != nil || !slices.Equal(h.GetSameMachine(), []string{"h2"}) || len(h.GetMachine()) != 16 || strings.Contains(h.GetMachine(), "machine") {
		t.Errorf("h1: %v, %v; want h2 on the same machine", h, err)
	}
	const want = "hosts h1, h2 are on one machine: each gives away what it sees of it; want one agent, or a capacity in each agent.yaml that is its part"
	if warnings := f.status().GetWarnings(); !slices.Contains(warnings, want) {
		t.Errorf("status warns of %q; want %q", warnings, want)
	}
}

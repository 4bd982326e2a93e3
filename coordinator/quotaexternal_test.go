package coordinator

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// limitedAbroad is a rule for alice's parts in all queues of any cluster of the kind.
func limitedAbroad(cluster string, bytes int64) *bursarv1.Quota {
	return &bursarv1.Quota{Selector: map[string]string{"user": "alice"}, Limit: &bursarv1.Resource{
		MemoryBytes: new(64 * gib), External: []*bursarv1.ExternalResource{{Kind: "fake", Cluster: cluster, Path: "*", MemoryBytes: &bytes}},
	}}
}

func TestALimitOfExternalPartsIsKeptShownAndNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	f, here := queueOf(t, Config{}, openSQLite(t, path))
	f.put(limitedAbroad("", 3*gib))
	f.allocate(external("", "root.a", 2*gib))

	in, _ := detail[*bursarv1.InsufficientResources](f.refused(external("", "root.a", 2*gib)))
	name := &bursarv1.AccountName{
		Kind: bursarv1.AccountKind_ACCOUNT_KIND_QUOTA, Labels: map[string]string{"user": "alice"},
		External: &bursarv1.ExternalPlace{Kind: "fake", Cluster: "*", Path: "*"},
	}
	want := &bursarv1.Shortfall{Account: name, Dimension: "memory", Requested: 2 * gib, Available: gib, Limit: 3 * gib}
	if len(in.GetShortfalls()) != 1 || in.GetVerdict() != bursarv1.InsufficientResources_VERDICT_NOT_NOW {
		t.Errorf("%v", in)
	} else if diff := cmp.Diff(want, in.GetShortfalls()[0], protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if in, _ := detail[*bursarv1.InsufficientResources](f.refused(external("", "root.a", 4*gib))); in.GetVerdict() != bursarv1.InsufficientResources_VERDICT_NEVER {
		t.Errorf("more than the limit: %v", in)
	}
	for _, line := range []string{
		`bursar_account_external{account="user=alice",dimension="memory",external="fake:*:*",kind="limit"} 3.221225472e+09`,
		`bursar_account_external{account="user=alice",dimension="memory",external="fake:*:*",kind="reserved"} 2.147483648e+09`,
		`bursar_account_external_waiting{account="user=alice",external="fake:*:*"} 0`,
	} {
		if !strings.Contains(f.metrics(), line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	f.stop()

	f = start(t, Config{}, openSQLite(t, path), knows(here.Kind))
	got, err := f.quotas.Get(t.Context(), &bursarv1.QuotaServiceGetRequest{Selector: map[string]string{"user": "alice"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(limitedAbroad("*", 3*gib).GetLimit(), got.GetQuota().GetLimit(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if list := got.GetAccounts(); len(list) != 2 || list[0].GetName().GetExternal() != nil ||
		!proto.Equal(list[1].GetName(), name) || list[1].GetReserved().GetMemoryBytes() != 2*gib || list[1].GetAllocations() != 1 {
		t.Errorf("%v", list)
	}
	f.audited()
}

func TestAWrongLimitOfExternalPartsIsRefused(t *testing.T) {
	f, _ := queueOf(t, Config{}, nil)
	for field, change := range map[string]func(q *bursarv1.Quota, e *bursarv1.ExternalResource){
		"quota.limit.external[fake:*:*@gpu].partition": func(_ *bursarv1.Quota, e *bursarv1.ExternalResource) { e.Partition = "gpu" },
		"quota.limit.external[fake:*:root.*]":          func(_ *bursarv1.Quota, e *bursarv1.ExternalResource) { e.Path = "root.*" },
		"quota.limit.external[fake:*:*]":               func(_ *bursarv1.Quota, e *bursarv1.ExternalResource) { e.MemoryBytes = nil },
		"quota.guaranteed.external[fake:*:*].memory": func(q *bursarv1.Quota, _ *bursarv1.ExternalResource) {
			q.Guaranteed = limitedAbroad("", 2*gib).GetLimit()
		},
		"quota.guaranteed.external[fake:*:*@gpu].partition": func(q *bursarv1.Quota, e *bursarv1.ExternalResource) {
			q.Guaranteed, q.Limit = proto.CloneOf(q.GetLimit()), nil
			q.Guaranteed.External[0].Partition = "gpu"
		},
		"quota.guaranteed.external[fake:test:*]": func(q *bursarv1.Quota, _ *bursarv1.ExternalResource) {
			q.Guaranteed = limitedAbroad("test", gib).GetLimit()
		},
		"quota.limit.external[fake:prod:root.nowhere]": func(_ *bursarv1.Quota, e *bursarv1.ExternalResource) { e.Cluster, e.Path = "prod", "root.nowhere" },
		"quota.limit.external[fake:test:*]":            func(_ *bursarv1.Quota, e *bursarv1.ExternalResource) { e.Cluster = "test" },
		"quota.limit.external[yarn:*:*]":               func(_ *bursarv1.Quota, e *bursarv1.ExternalResource) { e.Kind = "yarn" },
		"quota.limit.external[fake:*:*].licences":      func(_ *bursarv1.Quota, e *bursarv1.ExternalResource) { e.Custom = map[string]int64{"licences": 1} },
	} {
		q := limitedAbroad("", gib)
		change(q, q.GetLimit().GetExternal()[0])
		_, err := f.quotas.Put(t.Context(), &bursarv1.PutRequest{Quota: q})
		if got := fieldOf(err); got != field {
			t.Errorf("%v: the field is %q; want %q", err, got, field)
		}
	}
}

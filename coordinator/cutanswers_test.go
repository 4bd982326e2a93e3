package coordinator

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/readlimit"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/resource"
)

// team puts so many large rules of one source in force, each for a user of its own.
func (f *fixture) team(n int) {
	f.tb.Helper()
	set := ledger.QuotaSet{Source: "team"}
	for i := range n {
		labels := map[string]string{"user": fmt.Sprintf("u%05d", i)}
		for k := range 15 {
			labels[fmt.Sprintf("key%d", k)] = strings.Repeat("x", 200)
		}
		selector, err := label.NewSelector(labels)
		if err != nil {
			f.tb.Fatal(err)
		}
		set.Quotas = append(set.Quotas, ledger.Quota{Selector: selector, Limit: resource.Vector{}.WithMemory(1)})
	}
	if err := f.server.loop.Do(f.tb.Context(), func(l *ledger.Ledger, now ledger.Instant) {
		if _, err := l.ApplyQuotas(now, set); err != nil {
			f.tb.Error(err)
		}
	}); err != nil {
		f.tb.Fatal(err)
	}
}

// held counts as if others were sent all that may be held for them.
func held(tb testing.TB, c *admission.Controller, bytes int) (sent func()) {
	tb.Helper()
	answer, err := c.Answer(admission.Caller{ID: "caller/mallory", Name: "mallory"}, bytes)
	if err != nil {
		tb.Fatal(err)
	}
	return answer.End
}

// What has changed is said, and what cannot be listed is counted: an error would say that nothing
// has.
func TestTheAnswerToRulesThatAreAppliedIsCutWhereItIsLarge(t *testing.T) {
	const n = 3000 // 10 MB
	f := start(t, Config{}, nil)
	f.team(n)
	client := bursarv1connect.NewQuotaServiceClient(f.http, f.url, readlimit.Messages(readlimit.Of(bursarv1connect.QuotaServiceApplyProcedure)))
	added := &bursarv1.Quota{Selector: map[string]string{"user": "alice"}, Limit: memory(mib)}
	for _, dry := range []bool{true, false} {
		res, err := client.Apply(t.Context(), &bursarv1.ApplyRequest{Source: "team", Quotas: []*bursarv1.Quota{added}, Prune: true, DryRun: dry})
		if err != nil {
			t.Fatal(err)
		}
		if listed, more := len(res.GetDeleted()), int(res.GetMoreDeleted()); listed == 0 || more == 0 || listed+more != n || proto.Size(res) > wire.PageMost {
			t.Errorf("%d of the deleted are listed and %d are more, in %d bytes; want %d in all", listed, more, proto.Size(res), n)
		}
		if len(res.GetAdded()) != 1 || res.GetMoreAdded() != 0 || res.GetMoreChanged() != 0 {
			t.Errorf("%d are added and %d more, and %d are changed; want one", len(res.GetAdded()), res.GetMoreAdded(), res.GetMoreChanged())
		}
	}
	if rules := f.rules(); len(rules) != 1 {
		t.Errorf("%d rules are left; want one", len(rules))
	}
}

// If others read too slowly for one more answer, the answer to what has been done is cut to
// nothing, not refused.
func TestWhatHasBeenDoneIsNotRefusedForItsAnswer(t *testing.T) {
	f := start(t, Config{}, nil)
	f.team(100)
	sent := held(t, f.server.limits.Callers, allAnswers)
	res, err := f.quotas.Apply(t.Context(), &bursarv1.ApplyRequest{Source: "team", Prune: true})
	sent()
	if err != nil {
		t.Fatalf("%v; %d rules are left", err, len(f.rules()))
	}
	if len(res.GetDeleted()) != 0 || res.GetMoreDeleted() != 100 || len(f.rules()) != 0 {
		t.Errorf("%d of the deleted are listed and %d are more, %d rules are left; want none, 100 and none", len(res.GetDeleted()), res.GetMoreDeleted(), len(f.rules()))
	}
}

// An agent with an empty answer has missed nothing: it asks again from its place.
func TestAReportIsNotRefusedForItsAnswer(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	const n = 200 // 2 MB
	for range n {
		f.allocate(largeRequest(""))
	}
	epoch := f.status().GetEpoch()
	available := gib
	report := &bursarv1.SyncRequest{
		HostId: "h1", Incarnation: 1, Sequence: 2, Epoch: epoch, BootId: "boot", Full: true, LedgerSequence: 1,
		Sample: &bursarv1.HostSample{MemoryTotalBytes: &available, MemoryAvailableBytes: &available, MemorySafetyBytes: quantity(0)},
	}
	sync := func() *bursarv1.SyncResponse {
		t.Helper()
		report.Sequence++
		res, err := f.hosts.Sync(t.Context(), report)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := sync(); len(res.GetGrants()) != n || !res.GetComplete() {
		t.Fatalf("%d grants", len(res.GetGrants()))
	}
	sent := held(t, f.server.limits.Hosts, allHostAnswers)
	res := sync()
	if len(res.GetGrants()) != 0 || res.GetComplete() || res.GetLedgerSequence() != 1 || res.GetAction() != bursarv1.SyncAction_SYNC_ACTION_RESYNC || res.GetEpoch() != epoch {
		t.Errorf("the answer is cut to %v; want one that asks for the same report again", res)
	}
	report.Full = false
	if res := sync(); len(res.GetGrants()) != 0 || res.GetComplete() || res.GetLedgerSequence() != 1 || res.GetAction() != bursarv1.SyncAction_SYNC_ACTION_UNSPECIFIED {
		t.Errorf("the answer to changes is cut to %v; want one that is of nothing new", res)
	}
	sent()
	if res := sync(); len(res.GetGrants()) != n || res.GetLedgerSequence() <= 1 {
		t.Errorf("%d grants; want %d", len(res.GetGrants()), n)
	}
}

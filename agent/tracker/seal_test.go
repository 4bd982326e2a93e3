package tracker_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A Confirm brings a grant without a seal. The next Sync brings the seal of the same revision. The
// agent stores and reports it with the grant, and does not show it to callers on the host.
func TestASealIsKeptWithItsGrant(t *testing.T) {
	k := registered(t)
	confirmed := engine("a", 11, 64, 42)
	k.Show("a", confirmed.GetProcess())
	k.Observe(start, confirmed, 5)
	k.Snapshot()
	sealed := func(revision uint64, seal string) {
		a := proto.CloneOf(confirmed)
		a.Revision, a.Seal = revision, []byte(seal)
		answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 12, Grants: []*bursarv1.Allocation{a}})
	}
	kept := func() string {
		engines := k.Snapshot().Engines
		if len(engines) != 1 {
			t.Fatalf("it has %d engines", len(engines))
		}
		return string(engines[0].GetSeal())
	}
	sealed(11, "first")
	if !k.Unsaved() || kept() != "first" {
		t.Errorf("kept %q", kept())
	}
	sealed(11, "first")
	if k.Unsaved() {
		t.Error("the same seal again is to be stored")
	}
	sealed(11, "second")
	if !k.Unsaved() || kept() != "second" {
		t.Errorf("kept %q after another seal", kept())
	}
	sealed(9, "of an older grant")
	if kept() != "second" {
		t.Errorf("kept %q of an older grant", kept())
	}
	for _, a := range k.All() {
		if len(a.GetSeal()) != 0 {
			t.Error("callers on the host are shown the seal")
		}
	}
	next := tracker.New(start, host(2), k.Snapshot())
	register(t, next, 5)
	report := next.BuildSync(start)
	if len(report.GetEngines()) != 1 || !bytes.Equal(report.GetEngines()[0].GetGrant().GetSeal(), []byte("second")) {
		t.Errorf("after a restart it reports %v", report.GetEngines())
	}
}

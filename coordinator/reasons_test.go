package coordinator

import (
	"strings"
	"testing"
	"unicode"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A reason goes into logs and onto terminals of others, those of programs in other languages, too.
func TestReasonsAreOneLineWithoutControlCharacters(t *testing.T) {
	const forged, want = "no\r\n2026-11-27 ERROR \x1b[2Jforged", "no  2026-11-27 ERROR  [2Jforged"
	f := start(t, Config{}, nil)
	ctx := t.Context()
	f.host("h1", gib)
	epoch := f.status().GetEpoch()
	ids := map[string]string{}
	for _, what := range []string{"canceled", "released", "stopped", "ended", "vetoed"} {
		ids[what] = f.allocate(request(what, mib)).GetId()
	}
	confirm := &bursarv1.ConfirmRequest{Id: ids["ended"], Process: &bursarv1.Process{Pid: 10, StartTime: 5, BootId: "boot"}}
	if _, err := f.allocations.Confirm(ctx, confirm); err != nil {
		t.Fatal(err)
	}
	if _, err := f.allocations.Cancel(ctx, &bursarv1.CancelRequest{Id: ids["canceled"], Reason: forged}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.allocations.Release(ctx, &bursarv1.ReleaseRequest{Id: ids["released"], Reason: forged, ErrorOutput: forged}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.allocations.Stop(ctx, &bursarv1.StopRequest{Id: ids["stopped"], Reason: forged}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.hosts.Sync(ctx, &bursarv1.SyncRequest{
		HostId: "h1", Incarnation: 1, Sequence: 2, Epoch: epoch, BootId: "boot", Full: true,
		Ended:  []*bursarv1.EngineEnd{{AllocationId: ids["ended"], Reason: forged, ErrorOutput: forged}},
		Vetoes: []*bursarv1.Veto{{AllocationId: ids["vetoed"], Revision: 1 << 40, Reason: forged}},
	}); err != nil {
		t.Fatal(err)
	}
	for what, id := range ids {
		if got := f.get(id).GetReason(); strings.ContainsFunc(got, unicode.IsControl) || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want it to have %q", what, got, want)
		}
	}
	for _, what := range []string{"released", "ended"} { // what an engine wrote keeps its lines
		if got := f.get(ids[what]).GetErrorOutput(); got != "no \n2026-11-27 ERROR  [2Jforged" {
			t.Errorf("%s: error output %q", what, got)
		}
	}
	if _, err := f.hosts.Cordon(ctx, &bursarv1.CordonRequest{HostId: "h1", Reason: forged}); err != nil {
		t.Fatal(err)
	}
	h, err := f.hosts.Get(ctx, &bursarv1.HostServiceGetRequest{Id: "h1"})
	if got := h.GetHost().GetUnavailableReason(); err != nil || got != "cordoned: "+want {
		t.Errorf("cordoned: %q, %v", got, err)
	}
}

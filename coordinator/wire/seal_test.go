package wire_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/seal"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/coordinator/wire"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// An agent receives, and sends back, the sealed content.
func TestAnAgentsRecordIsVouchedFor(t *testing.T) {
	s := seal.Sealer{Keys: seal.NewKeys(), Now: 1_795_000_000_000_000_000, Lifetime: 24 * time.Hour}
	rapid.Check(t, func(t *rapid.T) {
		a := storetest.Allocation(t, ledger.ID(rapid.Uint64Min(1).Draw(t, "id")))
		for _, at := range []*ledger.Instant{&a.Created, &a.Reserved, &a.Confirmed} {
			*at = max(0, min(*at, ledger.MaxInstant))
		}
		a.State, a.HostID, a.Process.PID, a.Claimed = ledger.Active, "h1", 5, nil
		answer := wire.SyncResponse(&core.Report{Result: ledger.SyncResult{Grants: []ledger.Allocation{a}}}, s)
		request := &bursarv1.SyncRequest{HostId: "h1", Full: true, Engines: []*bursarv1.EngineReport{{AllocationId: a.ID.String(), Grant: answer.GetGrants()[0]}}}
		report, err := wire.NewReport(request, s)
		if err != nil {
			t.Fatal(err)
		}
		if engine := report.Command.Engines[0]; engine.Unvouched && engine.Without == "" {
			t.Fatalf("no seal vouches for\n%+v\nwhich was\n%+v", engine.Grant, a)
		}
		request.HostId = "h2"
		if report, err = wire.NewReport(request, s); err != nil || !report.Command.Engines[0].Unvouched {
			t.Fatalf("%v: another host's report is vouched for", err)
		}
	})
}

package ledger_test

import (
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// An allocation that is made smaller than what its engine uses is in over-use before the next
// measurement says so, and the ledger knows what its host does then.
func TestOverUseAfterAResizeIsForeseen(t *testing.T) {
	const mib = int64(1) << 20
	for name, test := range map[string]struct {
		rule     ledger.OverUseRule
		known    []ledger.OverUse
		entitled int64
		want     ledger.OverUsePolicy // 0: none
		stop     ledger.Instant
	}{
		"warned":               {rule: ledger.OverUseRule{Policy: ledger.PolicyWarn, Tolerance: 100}, entitled: 100 * mib, want: ledger.PolicyWarn},
		"stopped":              {rule: ledger.OverUseRule{Policy: ledger.PolicyKill, Grace: 30}, entitled: 299 * mib, want: ledger.PolicyKill, stop: start.Add(30 * time.Second)},
		"it fits":              {rule: ledger.OverUseRule{Policy: ledger.PolicyWarn}, entitled: 300 * mib},
		"it is tolerated":      {rule: ledger.OverUseRule{Policy: ledger.PolicyKill, Tolerance: 100}, entitled: 280 * mib},
		"beyond the tolerance": {rule: ledger.OverUseRule{Policy: ledger.PolicyLimit, Tolerance: 100}, entitled: 272 * mib, want: ledger.PolicyLimit},
		"an older agent":       {entitled: 100 * mib},
		"known already": {
			rule: ledger.OverUseRule{Policy: ledger.PolicyKill, Grace: 30}, entitled: 100 * mib, want: ledger.PolicyKill, stop: 7,
			known: []ledger.OverUse{{Dimension: resource.Memory, Used: 300 * mib, Entitled: 200 * mib, Since: start, Policy: ledger.PolicyKill, StopTime: 7}},
		},
	} {
		l := ready(t)
		id := reserve(t, l, "alice").ID
		run(t, l, id)
		total, available := 8192*mib, 4096*mib
		_, err := l.Sync(start, ledger.SyncCommand{
			HostID: "h1", Incarnation: 1, Sequence: 2, Seen: l.Revision(), Sample: &ledger.Sample{MemoryTotal: &total, MemoryAvailable: &available},
			Engines: []ledger.EngineReport{{ID: id, Measured: resource.Vector{}.WithMemory(300 * mib), Unreclaimable: 300 * mib, Rule: test.rule, OverUse: test.known}},
		})
		must(t, err)
		_, err = l.Resize(start, ledger.ResizeCommand{Actor: identity.Local(), ID: id, Entitled: resource.Resource{Vector: resource.Vector{}.WithMemory(test.entitled)}})
		must(t, err)
		got := l.ForeseenOverUse(id)
		switch {
		case test.want == 0 && len(got) == 0:
		case len(got) != 1 || got[0].Policy != test.want || got[0].StopTime != test.stop || got[0].Used != 300*mib:
			t.Errorf("%s: %+v", name, got)
		}
		if a, _ := l.Get(id); len(a.OverUse) != len(test.known) {
			t.Errorf("%s: stored: %+v", name, a.OverUse)
		}
	}
	if got := ready(t).ForeseenOverUse(1); got != nil {
		t.Errorf("of no allocation: %v", got)
	}
}

package launches

import (
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
)

// The engine of a launch can be used once it has begun and, if its request has a readiness, is
// ready.
func TestOnlyAnEngineThatHasBegunCanBeUsed(t *testing.T) {
	const logs = "/log"
	for name, test := range map[string]struct {
		state        ledger.State
		launch       *ledger.Launch
		phase        ledger.Phase
		exit         *ledger.ExitStatus
		ready, usage bool
	}{
		"reserved":                   {state: ledger.Reserved, launch: &ledger.Launch{Row: 7}},
		"confirmed":                  {state: ledger.Active, launch: &ledger.Launch{Row: 7}},
		"begun":                      {state: ledger.Active, launch: &ledger.Launch{LogDirectory: logs}, ready: true, usage: true},
		"adopted, confirmed alone":   {state: ledger.Active, launch: &ledger.Launch{}},
		"starting":                   {state: ledger.Active, launch: &ledger.Launch{LogDirectory: logs, Watched: true}, phase: ledger.Starting},
		"ready":                      {state: ledger.Active, launch: &ledger.Launch{LogDirectory: logs, Watched: true}, phase: ledger.Ready, ready: true, usage: true},
		"not ready in time":          {state: ledger.Active, launch: &ledger.Launch{LogDirectory: logs, Watched: true}, phase: ledger.Failed},
		"of its caller":              {state: ledger.Active, ready: true},
		"ended":                      {state: ledger.Released, launch: &ledger.Launch{LogDirectory: logs}, usage: true},
		"killed before it had begun": {state: ledger.Released, launch: &ledger.Launch{}, exit: &ledger.ExitStatus{Signal: 9}},
		"ended before it was ready":  {state: ledger.Released, launch: &ledger.Launch{LogDirectory: logs, Watched: true}, phase: ledger.Failed},
		"ended after it was ready":   {state: ledger.Released, launch: &ledger.Launch{LogDirectory: logs, Watched: true}, phase: ledger.Ready, usage: true},
	} {
		a := &ledger.Allocation{State: test.state, Confirmed: 1, Exit: test.exit}
		if test.launch != nil {
			a.Start = &ledger.Start{Launch: test.launch, Phase: test.phase}
		}
		if IsReady(a) != test.ready || WasUsable(a) != test.usage {
			t.Errorf("%s: ready %v, was usable %v", name, IsReady(a), WasUsable(a))
		}
		if IsSettled(a) != (test.ready || test.state == ledger.Released) {
			t.Errorf("%s: settled %v", name, IsSettled(a))
		}
	}
}

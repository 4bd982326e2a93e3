package launches

import "github.com/bursar/bursar/coordinator/ledger"

// IsReady reports whether an engine can be used, as far as anybody has said what that takes. The
// engine of a launch must have begun: an allocation that is adopted from its agent's report has no
// row of its launch, and may be confirmed alone.
func IsReady(a *ledger.Allocation) bool {
	if a.State != ledger.Active {
		return false
	}
	launch := a.Launch()
	return a.Phase() == ledger.Ready || a.Phase() == ledger.PhaseUnknown && (launch == nil || launch.LogDirectory != "")
}

// IsSettled reports whether a Start waits for nothing more of an allocation: the engine can be
// used, waits for another host, or has ended.
func IsSettled(a *ledger.Allocation) bool {
	return a.State != ledger.Reserved && (a.State != ledger.Active || IsReady(a))
}

// WasUsable reports whether an engine that has ended had begun and, if its request has a readiness,
// was ready. How it ended says nothing about that: a process that waits to begin can be killed.
func WasUsable(a *ledger.Allocation) bool {
	launch := a.Launch()
	if launch == nil || a.Confirmed == 0 {
		return false
	}
	return launch.LogDirectory != "" && (a.Phase() == ledger.Ready || a.Phase() == ledger.PhaseUnknown && !launch.Watched)
}

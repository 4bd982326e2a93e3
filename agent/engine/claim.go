package engine

import (
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// ClaimAndShow shows the process that a call is about to confirm for an allocation. If the process
// is the engine of another allocation, or another call is about to make it one, ClaimAndShow
// returns the id of that allocation. Otherwise the call must end the claim once the engine is known
// or was refused.
func (s *Engines) ClaimAndShow(id string, process *bursarv1.Process) (done func(), other string) {
	s.state.Locked(func(t *tracker.Tracker) {
		if other = t.Claim(id, process); other == "" {
			t.Show(id, process)
		}
	})
	return func() { s.state.Locked(func(t *tracker.Tracker) { t.Unclaim(process) }) }, other
}

// ShowConfirmed shows the process that was confirmed once more: in the meantime another call may
// have shown another process, which was not confirmed.
func (s *Engines) ShowConfirmed(id string, process *bursarv1.Process) {
	if process.GetPid() != 0 {
		s.state.Locked(func(t *tracker.Tracker) { t.Show(id, process) })
	}
}

// ForgetRefused takes back the process that was shown for a refused Confirm. If the allocation has
// an engine already, that stays shown.
func (s *Engines) ForgetRefused(id string) {
	s.state.Locked(func(t *tracker.Tracker) {
		if _, held := t.Get(id); !held {
			t.Show(id, nil)
		}
	})
}

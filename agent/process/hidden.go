package process

import (
	"errors"
	"fmt"

	"github.com/bursar/bursar/providers/host"
)

// HiddenError says that Stop cannot end an engine because the process table hides its root.
type HiddenError struct{ Root Ref }

func (e *HiddenError) Error() string {
	return fmt.Sprintf("process %d runs, and this agent cannot see it in /proc: it is left alone, to be ended by its user or by root", e.Root.PID)
}

// seesRoot returns a *HiddenError if the engine's root process runs but is hidden. In this case an
// empty result of find does not prove that the engine has ended.
func (s *stopper) seesRoot() error {
	if s.handles[s.engine.Root] != nil {
		return nil
	}
	if _, err := s.opener.identifier.Identify(s.engine.Root.PID); errors.Is(err, host.ErrHidden) {
		return &HiddenError{s.engine.Root}
	}
	return nil
}

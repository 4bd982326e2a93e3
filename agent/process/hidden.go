package process

import (
	"errors"
	"fmt"

	"github.com/bursar/bursar/providers/host"
)

// HiddenError says that an engine cannot be ended because its process cannot be seen.
type HiddenError struct{ Root Ref }

func (e *HiddenError) Error() string {
	return fmt.Sprintf("process %d runs, and this agent cannot see it in /proc: it is left alone, to be ended by its user or by root", e.Root.PID)
}

// seesRoot returns a *HiddenError if the engine's root process is there and cannot be seen. Nothing
// that was found proves then that the engine has ended.
func (s *stopper) seesRoot() error {
	if s.handles[s.engine.Root] != nil {
		return nil
	}
	if _, err := s.opener.identifier.Identify(s.engine.Root.PID); errors.Is(err, host.ErrHidden) {
		return &HiddenError{s.engine.Root}
	}
	return nil
}

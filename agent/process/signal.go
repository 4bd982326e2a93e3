package process

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/bursar/bursar/providers/host"
)

// ForeignError says that a process runs as another user than its engine.
type ForeignError struct {
	Ref  Ref
	User *uint32 // nil: the engine's user is not known
}

func (e *ForeignError) Error() string {
	if e.User == nil {
		return fmt.Sprintf("it is not known as which user process %d was started", e.Ref.PID)
	}
	return fmt.Sprintf("process %d does not run as the engine's user (uid %d) any more", e.Ref.PID, *e.User)
}

// Signal sends one signal to the root process of an engine, and to nothing else. As with Stop, the
// process gets it only if the engine's user, a real uid, could have sent it, too; user is that of
// Confirm, nil if it is not known.
//
// Errors: ErrEnded, *ForeignError, and those of a process that cannot be looked at or signalled.
func (o *Opener) Signal(root Ref, user *uint32, signal syscall.Signal) error {
	handle, err := o.Open(root)
	if err != nil {
		return err
	}
	defer handle.Close()
	identity, err := handle.identify() // with the process open: what is read is about it
	if errors.Is(err, host.ErrHidden) {
		return fmt.Errorf("process %d: the process table hides it from the agent", root.PID)
	}
	if err != nil {
		return err
	}
	if user == nil || *user != 0 && identity.UID != *user {
		return &ForeignError{root, user}
	}
	return handle.Signal(signal)
}

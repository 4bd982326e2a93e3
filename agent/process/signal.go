package process

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/bursar/bursar/providers/host"
)

// ForeignError says that a process does not run as its engine's user.
type ForeignError struct {
	Ref  Ref
	User *uint32 // nil if the engine's user is unknown
}

func (e *ForeignError) Error() string {
	if e.User == nil {
		return fmt.Sprintf("it is not known as which user process %d was started", e.Ref.PID)
	}
	return fmt.Sprintf("process %d does not run as the engine's user (uid %d) any more", e.Ref.PID, *e.User)
}

// Signal sends one signal to the root process of an engine, and to no other process. As with Stop,
// the engine's user must be allowed to send it. user is the real uid at Confirm, nil if unknown.
//
// Errors: ErrEnded, *ForeignError, and the errors of reading or signalling a process.
func (o *Opener) Signal(root Ref, user *uint32, signal syscall.Signal) error {
	handle, err := o.Open(root)
	if err != nil {
		return err
	}
	defer handle.Close()
	identity, err := handle.identify() // with the process open, so that the result is about this process
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

package core

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// withRecover runs f on the ledger, and through it on a placer. All calls of the ledger go through
// it. A panic there ends only the leadership. command is the command that f runs; nil: none.
func (c *Core) withRecover(l *ledger.Ledger, command Command, f func()) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = c.panicked(l, command, cause)
		}
	}()
	f()
	return nil
}

// Fault is why the leadership cannot go on: the core must be dropped. Nil: it can go on.
func (c *Core) Fault() error {
	if c.fault == nil {
		return nil
	}
	return c.fault
}

// panicked finds the cause of a panic of the ledger. If it is a command, the command is refused
// from then on, and its caller gets the error. If it is a stored waiting request, the next
// leadership cancels it.
func (c *Core) panicked(l *ledger.Ledger, command Command, cause any) error {
	fault := &PanicError{Cause: cause, Stack: debug.Stack()}
	c.fault = fault
	culprit := l.Culprit()
	blamed := command
	switch id := culprit.Request.ID; {
	case c.explaining:
		c.explaining, c.unexplained = false, true
		if request := c.expired; request != nil { // it is no longer a waiter
			c.expired, blamed = nil, request
			defer request.Answer(fault)
		}
	case id != 0:
		c.aside[id] = fmt.Sprintf("it made the coordinator fail: %v", cause)
		fault.Refused = "allocation " + id.String()
		if request, asks := command.(*Request); !asks || !request.repeats(&culprit.Request) {
			blamed = nil
		}
		for request := c.waiters[id]; request != nil; request = c.waiters[id] {
			c.removeWaiter(id, request)
			c.refuse(request, fault)
			request.Answer(fault)
		}
	case culprit.Early:
		blamed = nil
	}
	if blamed != nil {
		c.refuse(blamed, fault)
	}
	if command != nil && blamed == command {
		command.Answer(fault)
	} else if command != nil {
		command.Answer(ErrNotLeading)
	}
	return fault
}

// refuse refuses a command from now on.
func (c *Core) refuse(command Command, fault *PanicError) {
	o := command.origin()
	if o == nil {
		return
	}
	if c.refused.Of(o, c.now) == nil {
		c.refused.Add(o, c.now, fmt.Sprint(fault.Cause))
	}
	fault.Refused = fmt.Sprintf("%s of %s (%s)", o.Procedure, o.Caller, c.refused.Of(o, c.now).ID())
}

// Refusals describes the commands that are refused because they made the ledger panic.
func (c *Core) Refusals() []string {
	list := make([]string, 0, len(c.refused.list))
	for i := range c.refused.list {
		r := &c.refused.list[i]
		if r.Version != c.refused.version {
			continue
		}
		list = append(list, fmt.Sprintf("%s of %q is refused since %s (refusal %s): it made the ledger panic: %s",
			r.Procedure, r.Caller, r.At.Time().UTC().Format(time.RFC3339), r.ID(), r.Cause))
	}
	return list
}

package output

import (
	"fmt"

	"github.com/bursar/bursar/agent/output/reading"
)

// Error says why output cannot be read; its Code says which kind of fault it is. The text names
// paths of the engine's user, as this user may have chosen them.
type Error = reading.Error

// The codes of an Error that a caller may decide on; package reading describes them.
const (
	Gone      = reading.Gone
	Denied    = reading.Denied
	Irregular = reading.Irregular
	Stranger  = reading.Stranger
	Damaged   = reading.Damaged
	Taken     = reading.Taken
	Uncounted = reading.Uncounted
	Invalid   = reading.Invalid
	Internal  = reading.Internal
)

// Starter says how an engine came to run whose output the agent does not have.
type Starter int

const (
	// UnknownStarter is of an engine that the agent does not know, or not any more.
	UnknownStarter Starter = iota
	// ForegroundStarter is bursar run without an agent that keeps the output.
	ForegroundStarter
	// CallerStarter is a caller that has started the engine itself, and confirmed its process.
	CallerStarter
)

// NotHereError says that the agent does not have the output of an engine.
type NotHereError struct {
	ID      string
	Starter Starter
	// Where is the folder or file with the output, if it is known.
	Where string
}

func (e *NotHereError) Error() string {
	var text string
	switch e.Starter {
	case ForegroundStarter:
		text = fmt.Sprintf("bursar run started the engine of allocation %s in the foreground: its output went where the output of bursar run went", e.ID)
	case CallerStarter:
		text = fmt.Sprintf("the caller that confirmed allocation %s started its engine: the output is where that caller directed it", e.ID)
	case UnknownStarter:
		text = fmt.Sprintf("the agent has no output of allocation %s: want an engine that it launched, and whose log files are still there", e.ID)
	}
	if e.Where != "" {
		text += ": " + e.Where
	}
	return text
}

// BusyError refuses a reader beyond a limit.
type BusyError struct {
	// Caller has as many readers as one may have; empty: all callers together do.
	Caller string
	Limit  int
}

func (e *BusyError) Error() string {
	if e.Caller == "" {
		return fmt.Sprintf("%d readers of output are open on this host: want fewer; try again later", e.Limit)
	}
	return fmt.Sprintf("caller %s has %d readers of output open on this host: want fewer; close one", e.Caller, e.Limit)
}

// AccountError refuses an account that is not the one that the engine ran as.
type AccountError struct {
	User     string
	UID, Now uint32
}

func (e *AccountError) Error() string {
	return fmt.Sprintf("account %s has uid %d: want uid %d, as which the engine ran and which owns its log files", e.User, e.Now, e.UID)
}

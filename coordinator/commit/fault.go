package commit

import (
	"errors"
	"fmt"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
)

// endAfterPanic ends a leadership in which the ledger panicked. Only the caller to blame is told
// of the panic: all others try again.
func (loop *Loop) endAfterPanic(err error) {
	if fault, ok := errors.AsType[*core.PanicError](err); ok {
		loop.recordFault(fault)
	}
	loop.dropLedger(core.ErrNotLeading)
	loop.endTerm(err)
}

// recordFault logs that the ledger panicked, and what is refused because of it.
func (loop *Loop) recordFault(fault *core.PanicError) {
	loop.Log.Error("the ledger panicked: this leadership is over", "cause", fault.Cause, "refused", fault.Refused, "stack", string(fault.Stack))
	loop.Metrics.faults.Inc()
	if fault.Refused == "" {
		loop.unknownPanic.Store(&unknownPanic{loop.Clock.Now(), fmt.Sprint(fault.Cause)})
	}
	list := loop.core.Refusals()
	loop.refusals.Store(&list)
}

// unknownPanic is a panic of the ledger without a known cause: it may come again.
type unknownPanic struct {
	at    ledger.Instant
	cause string
}

// FaultWarnings says what is refused because it made the ledger panic. If the cause of a panic is
// not known, it says so for a day.
func (loop *Loop) FaultWarnings() (list []string) {
	if refused := loop.refusals.Load(); refused != nil {
		list = AtMost(*refused, mostHidden, "the log")
	}
	if last := loop.unknownPanic.Load(); last != nil && loop.Clock.Now().Sub(last.at) < core.RefusedFor {
		list = append(list, fmt.Sprintf("the ledger panicked at %s, and it is not known over what: %s: the log has the stack; "+
			"while it comes again, attempts to lead are up to 5 s apart", last.at.Time().UTC().Format(time.RFC3339), last.cause))
	}
	return list
}

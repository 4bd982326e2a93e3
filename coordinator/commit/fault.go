package commit

import (
	"errors"
	"fmt"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
)

// endAfterPanic ends a leadership in which the ledger panicked. Only the caller whose command
// caused the panic gets its error. All others get an error that lets them try again.
func (loop *Loop) endAfterPanic(err error) {
	if fault, ok := errors.AsType[*core.PanicError](err); ok {
		loop.recordFault(fault)
	}
	loop.dropLedger(core.ErrNotLeading)
	loop.endTerm(err)
}

// recordFault logs a panic of the ledger, and the commands that are refused because of it.
func (loop *Loop) recordFault(fault *core.PanicError) {
	loop.Log.Error("the ledger panicked: this leadership is over", "cause", fault.Cause, "refused", fault.Refused, "stack", string(fault.Stack))
	loop.Metrics.faults.Inc()
	if fault.Refused == "" {
		loop.unknownPanic.Store(&unknownPanic{loop.Clock.Now(), fmt.Sprint(fault.Cause)})
	}
	list := loop.core.Refusals()
	loop.refusals.Store(&list)
}

// unknownPanic is a panic of the ledger whose command is not known. It may happen again.
type unknownPanic struct {
	at    ledger.Instant
	cause string
}

// FaultWarnings lists the commands that are refused because they made the ledger panic. It also
// warns for a day of a panic whose command is not known.
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

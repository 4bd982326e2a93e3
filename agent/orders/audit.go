package orders

import (
	"errors"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/launch"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// audited holds the fields of a launch's audit record. It has no arguments, environment or secrets.
type audited struct{ caller, account, program string }

// auditLaunch writes the record of an order that was carried out, or refused. Records are lines of
// the log with audit=true, as on a coordinator without an audit file. Every stop has a record, too.
func (t *Taker) auditLaunch(id string, a *audited, err error) {
	code, message := "ok", ""
	if err != nil {
		code, message = "failed", reasonOf(err)
		if _, refused := errors.AsType[*RefusedError](err); refused {
			code = "refused"
		}
	}
	t.Log.Info("a coordinator's order", "audit", true, "order", "launch", "allocation_id", id,
		"caller", a.caller, "account", a.account, "program", a.program, "code", code, "message", message)
}

// programOf returns the executed program, without arguments.
func programOf(spec *bursarv1.LaunchSpec) string {
	switch {
	case len(spec.GetScript()) > 0:
		return "script"
	case len(spec.GetCommand()) > 0:
		return spec.GetCommand()[0]
	}
	return ""
}

// reasonOf returns the reason for remote callers. Of the launch's values it has only the program
// and the names of things that the host lacks.
func reasonOf(err error) string {
	wrong, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return err.Error()
	}
	for _, detail := range wrong.Details() {
		value, err := detail.Value()
		if field, is := value.(*bursarv1.InvalidField); err == nil && is && !isShown(field.GetField()) {
			return field.GetField() + ": want " + field.GetWant()
		}
	}
	return wrong.Message()
}

// faultOf returns the fault of a launch's program, if the program could not be executed.
func faultOf(err error) bursarv1.LaunchFault {
	wrong, _ := errors.AsType[*launch.FieldError](err)
	if wrong == nil {
		return bursarv1.LaunchFault_LAUNCH_FAULT_UNSPECIFIED
	}
	switch wrong.Fault {
	case keeper.NotFound:
		return bursarv1.LaunchFault_LAUNCH_FAULT_NOT_FOUND
	case keeper.NotExecutable:
		return bursarv1.LaunchFault_LAUNCH_FAULT_NOT_EXECUTABLE
	case keeper.NoFault:
	}
	return bursarv1.LaunchFault_LAUNCH_FAULT_UNSPECIFIED
}

// isShown reports whether remote callers get the value of a field. For a script the field has only
// the interpreter.
func isShown(field string) bool {
	return slices.Contains([]string{"command[0]", "ready.command.command[0]", "script", "readiness.port"}, field) ||
		strings.HasPrefix(field, "required_files[") || strings.HasPrefix(field, "required_variables[")
}

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

// audited is what the audit record of a launch says of it: no arguments, environment or secrets.
type audited struct{ caller, account, program string }

// auditLaunch writes the record of an order that was carried out, or refused. Records are lines of
// the log with audit=true, as a coordinator's without a file are. Stops have one, too, whatever way
// they come.
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

// programOf is what is executed, without arguments.
func programOf(spec *bursarv1.LaunchSpec) string {
	switch {
	case len(spec.GetScript()) > 0:
		return "script"
	case len(spec.GetCommand()) > 0:
		return spec.GetCommand()[0]
	}
	return ""
}

// reasonOf is what people elsewhere hear: no values of the launch, but its program and the names of
// things that its host lacks.
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

// faultOf is what is wrong with the program of a launch, if that is why nothing was executed.
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

// isShown reports whether people elsewhere hear the value of a field. Of a script the field has the
// interpreter alone.
func isShown(field string) bool {
	return slices.Contains([]string{"command[0]", "ready.command.command[0]", "script", "readiness.port"}, field) ||
		strings.HasPrefix(field, "required_files[") || strings.HasPrefix(field, "required_variables[")
}

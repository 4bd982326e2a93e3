package failure

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/regularfile"
	"github.com/bursar/bursar/internal/yamlfile"
)

// Exit codes, as in sysexits.h if it has one for the case. `bursar help exit-codes` lists them for
// the user.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 64
	ExitData        = 65
	ExitNoSuchThing = 66
	ExitUnavailable = 69
	ExitNoResources = 75
	ExitNotAllowed  = 77
	ExitConfig      = 78
	// ExitTimedOut is as timeout(1) uses it.
	ExitTimedOut = 124
	// ExitNotExecutable, ExitNotFound and ExitSignal are as the shell and env(1) use them.
	ExitNotExecutable = 126
	ExitNotFound      = 127
	ExitSignal        = 128 // and the signal's number
)

// ExitError ends the program with a code. Without an error nothing is printed.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// UsageError is a command line that cannot be understood.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

func (e *UsageError) Unwrap() error { return e.Err }

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// Config is a configuration that cannot be used.
func Config(err error) error { return &ExitError{ExitConfig, err} }

// ExitCode is the one place that turns errors into exit codes.
func ExitCode(err error) int {
	var (
		exit    *ExitError
		usage   *UsageError
		target  *client.TargetError
		wrong   *discovery.URLError
		file    *yamlfile.Error
		missing *NoSuchError
		vague   *AmbiguousError
		shared  *SharedNameError
		text    *NotUTF8Error
	)
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &usage), errors.As(err, &target), errors.As(err, &wrong), errors.As(err, &text):
		return ExitUsage
	case errors.As(err, &file), errors.As(err, &vague), errors.As(err, &shared):
		return ExitData
	case errors.As(err, &missing), IsNoFile(err) && !isCall(err):
		return ExitNoSuchThing
	case client.Never(err):
		return ExitData
	case isForeign(err):
		return ExitUnavailable
	case isCall(err):
		return callCode(connect.CodeOf(err))
	default:
		return ExitFailed
	}
}

// IsNoFile reports whether there is no regular file at a path.
func IsNoFile(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, regularfile.ErrNotRegular)
}

// isCall reports whether the error is the answer to a call, or says that there was none.
func isCall(err error) bool {
	var call *connect.Error
	return errors.As(err, &call)
}

func callCode(code connect.Code) int {
	switch code {
	case connect.CodeInvalidArgument, connect.CodeOutOfRange, connect.CodeAlreadyExists:
		return ExitData
	case connect.CodeNotFound:
		return ExitNoSuchThing
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded:
		return ExitUnavailable
	case connect.CodeResourceExhausted:
		return ExitNoResources
	case connect.CodePermissionDenied, connect.CodeUnauthenticated:
		return ExitNotAllowed
	case connect.CodeCanceled, connect.CodeUnknown, connect.CodeFailedPrecondition, connect.CodeAborted, connect.CodeUnimplemented,
		connect.CodeInternal, connect.CodeDataLoss:
		return ExitFailed
	default:
		return ExitFailed
	}
}

// NotUTF8Error is a text that no message can hold.
type NotUTF8Error struct{ Field, Value string }

func (e *NotUTF8Error) Error() string {
	return fmt.Sprintf("%s: %q: want valid UTF-8", e.Field, e.Value)
}

// NoSuchError says that an id, or the beginning of one, names nothing.
type NoSuchError struct {
	What, ID string
}

func (e *NoSuchError) Error() string { return fmt.Sprintf("no such %s: %q", e.What, e.ID) }

// AmbiguousError says that the beginning of an id names several things.
type AmbiguousError struct {
	What, Prefix string
	Candidates   []string
	More         bool
}

func (e *AmbiguousError) Error() string {
	list := strings.Join(e.Candidates, ", ")
	if e.More {
		list += ", …"
	}
	return fmt.Sprintf("%q is the beginning of several %ss: %s", e.Prefix, e.What, list)
}

// SharedNameError says that several allocations have a name that was to name one.
type SharedNameError struct {
	Name string
	IDs  []string
	More bool
}

func (e *SharedNameError) Error() string {
	list := strings.Join(e.IDs, ", ")
	if e.More {
		list += ", …"
	}
	return fmt.Sprintf("several allocations have the name %q: want an id of them: %s", e.Name, list)
}

// isNumber reports whether a text is the index of a list.
func isNumber(text string) bool { return strings.Trim(text, "0123456789") == "" }

// aboutError says which of several things an error is about.
type aboutError struct {
	name string
	err  error
}

func (e *aboutError) Error() string { return e.name + ": " + e.err.Error() }

func (e *aboutError) Unwrap() error { return e.err }

// isForeign reports whether the answer is that of a web server that does not know the API. The
// library turns its status or its kind of content into an error.
func isForeign(err error) bool {
	call, ok := errors.AsType[*connect.Error](err)
	if !ok || connect.IsWireError(err) {
		return false
	}
	switch call.Code() { //nolint:exhaustive // the others are from a server of ours, or from none
	case connect.CodeUnimplemented, connect.CodeUnknown, connect.CodeInternal:
		status, _, _ := strings.Cut(call.Message(), " ")
		return len(status) == 3 && isNumber(status) || strings.HasPrefix(call.Message(), "invalid content-type")
	}
	return false
}

// HintedError is an error for which a command has a better hint than the error itself.
type HintedError struct {
	Err  error
	Hint string
}

func (e *HintedError) Error() string { return e.Err.Error() }

func (e *HintedError) Unwrap() error { return e.Err }

// LeaderlessError is a call that nobody could answer although coordinators run: none of them
// leads.
type LeaderlessError struct{ Err error }

func (e *LeaderlessError) Error() string {
	return "nobody leads at the moment: try again in some seconds"
}

func (e *LeaderlessError) Unwrap() error { return e.Err }

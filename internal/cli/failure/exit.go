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
	// As the shell and env(1) use them.
	ExitNotExecutable = 126
	ExitNotFound      = 127
	ExitSignal        = 128 // and the signal's number
)

// Exit ends the program with a code. Without an error nothing is printed.
type Exit struct {
	Code int
	Err  error
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Exit) Unwrap() error { return e.Err }

// Usage is a command line that cannot be understood.
type Usage struct{ Err error }

func (e *Usage) Error() string { return e.Err.Error() }

func (e *Usage) Unwrap() error { return e.Err }

func Usagef(format string, args ...any) error { return &Usage{fmt.Errorf(format, args...)} }

// Config is a configuration that cannot be used.
func Config(err error) error { return &Exit{ExitConfig, err} }

// ExitCode is the one place that turns errors into exit codes.
func ExitCode(err error) int {
	var (
		exit    *Exit
		usage   *Usage
		target  *client.TargetError
		wrong   *discovery.URLError
		file    *yamlfile.Error
		missing *NoSuch
		vague   *Ambiguous
		text    *NotUTF8
	)
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &usage), errors.As(err, &target), errors.As(err, &wrong), errors.As(err, &text):
		return ExitUsage
	case errors.As(err, &file), errors.As(err, &vague):
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

// NotUTF8 is a text that no message can hold.
type NotUTF8 struct{ Field, Value string }

func (e *NotUTF8) Error() string {
	return fmt.Sprintf("%s: %q: want valid UTF-8", e.Field, e.Value)
}

// NoSuch says that an id, or the beginning of one, names nothing.
type NoSuch struct {
	What, ID string
}

func (e *NoSuch) Error() string { return fmt.Sprintf("no such %s: %q", e.What, e.ID) }

// Ambiguous says that the beginning of an id names several things.
type Ambiguous struct {
	What, Prefix string
	Candidates   []string
	More         bool
}

func (e *Ambiguous) Error() string {
	list := strings.Join(e.Candidates, ", ")
	if e.More {
		list += ", …"
	}
	return fmt.Sprintf("%q is the beginning of several %ss: %s", e.Prefix, e.What, list)
}

// isNumber reports whether a text is the index of a list.
func isNumber(text string) bool { return strings.Trim(text, "0123456789") == "" }

// About says which of several things an error is about.
type About struct {
	name string
	err  error
}

func (e *About) Error() string { return e.name + ": " + e.err.Error() }

func (e *About) Unwrap() error { return e.err }

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

// Hinted is an error for which a command knows better what would help than the error itself.
type Hinted struct {
	Err  error
	Hint string
}

func (e *Hinted) Error() string { return e.Err.Error() }

func (e *Hinted) Unwrap() error { return e.Err }

// Leaderless is a call that nobody could answer although coordinators run: none of them
// leads.
type Leaderless struct{ Err error }

func (e *Leaderless) Error() string {
	return "nobody leads at the moment: try again in some seconds"
}

func (e *Leaderless) Unwrap() error { return e.Err }

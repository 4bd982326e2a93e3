package main

import (
	"errors"
	"fmt"
	"io/fs"
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
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 64
	exitData        = 65
	exitNoSuchThing = 66
	exitUnavailable = 69
	exitNoResources = 75
	exitNotAllowed  = 77
	exitConfig      = 78
	// As the shell and env(1) use them.
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // and the signal's number
)

// exitError ends the program with a code. Without an error nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError is a command line that cannot be understood.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// configError is a configuration that cannot be used.
func configError(err error) error { return &exitError{exitConfig, err} }

// exitCode is the one place that turns errors into exit codes.
func exitCode(err error) int {
	var (
		exit    *exitError
		usage   *usageError
		target  *client.TargetError
		wrong   *discovery.URLError
		file    *yamlfile.Error
		missing *noSuchError
		vague   *ambiguousError
		text    *notUTF8Error
	)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &usage), errors.As(err, &target), errors.As(err, &wrong), errors.As(err, &text):
		return exitUsage
	case errors.As(err, &file), errors.As(err, &vague):
		return exitData
	case errors.As(err, &missing), isNoFile(err) && !isCall(err):
		return exitNoSuchThing
	case client.Never(err):
		return exitData
	case isForeign(err):
		return exitUnavailable
	case isCall(err):
		return callCode(connect.CodeOf(err))
	default:
		return exitFailed
	}
}

// isNoFile reports whether there is no regular file at a path.
func isNoFile(err error) bool {
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
		return exitData
	case connect.CodeNotFound:
		return exitNoSuchThing
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded:
		return exitUnavailable
	case connect.CodeResourceExhausted:
		return exitNoResources
	case connect.CodePermissionDenied, connect.CodeUnauthenticated:
		return exitNotAllowed
	case connect.CodeCanceled, connect.CodeUnknown, connect.CodeFailedPrecondition, connect.CodeAborted, connect.CodeUnimplemented,
		connect.CodeInternal, connect.CodeDataLoss:
		return exitFailed
	default:
		return exitFailed
	}
}

package command

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/go-sql-driver/mysql"

	"github.com/bursar/bursar/integrations/linkis/check"
	"github.com/bursar/bursar/internal/regularfile"
)

// Exit codes: those of the program bursar (`bursar help exit-codes`).
const (
	exitFailed      = 1
	exitUsage       = 64
	exitData        = 65
	exitNoSuchThing = 66
	exitUnavailable = 69
	exitNotAllowed  = 77
	exitConfig      = 78
)

// exitError ends the program with a code.
type exitError struct {
	code int
	err  error
	// notes and hints are printed below the error, a line each.
	notes, hints []string
}

func (e *exitError) Error() string { return e.err.Error() }

func (e *exitError) Unwrap() error { return e.err }

func exit(code int, err error) error { return &exitError{code: code, err: err} }

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return exitFailed
}

// fileError gives the error of a file that the user names its code.
func fileError(err error) error {
	switch {
	case errors.Is(err, regularfile.ErrDevice), errors.Is(err, regularfile.ErrTooLarge):
		return exit(exitData, err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR), errors.Is(err, regularfile.ErrNotRegular):
		return exit(exitNoSuchThing, err)
	}
	return exit(exitFailed, err)
}

func databaseError(err error) error {
	if _, wrong := errors.AsType[*check.SettingError](err); wrong {
		return exit(exitConfig, err)
	}
	if refused, ok := errors.AsType[*mysql.MySQLError](err); ok && accessDenied(refused.Number) {
		return exit(exitNotAllowed, err)
	}
	return exit(exitUnavailable, err)
}

// accessDenied reports the errors of MariaDB and MySQL for a wrong password and for missing rights.
func accessDenied(number uint16) bool {
	return number == 1044 || number == 1045 || number == 1142 || number == 1698
}

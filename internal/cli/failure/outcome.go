package failure

import (
	"cmp"
	"errors"
	"syscall"
)

// Outcome is the error that a command ends with, from the error or nil that it returned. If its
// output was lost, outcome adds that. If the reader of a pipe has gone, it does not: nobody wants
// to know.
func (r *Reporter) Outcome(err error) error {
	lost := r.Lost()
	if lost == nil {
		return err
	}
	if err == nil || errors.Is(err, lost) {
		if errors.Is(lost, syscall.EPIPE) {
			return &Exit{Code: ExitFailed}
		}
		return cmp.Or(err, lost)
	}
	if !errors.Is(lost, syscall.EPIPE) {
		r.Report(lost)
	}
	return err
}

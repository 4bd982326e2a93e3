package failure

import (
	"bytes"
	"cmp"
	"errors"
	"syscall"

	"github.com/bursar/bursar/internal/cli/journal"
	"github.com/bursar/bursar/internal/cli/render"
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
			return &ExitError{Code: ExitFailed}
		}
		return cmp.Or(err, lost)
	}
	if !errors.Is(lost, syscall.EPIPE) {
		r.Report(lost)
	}
	return err
}

// Report writes the fault to stderr: one line, then hints. journald gets all of it as an error:
// `journalctl -p err` of a unit that does not start says why.
func (r *Reporter) Report(err error) {
	if r.IsJSON() {
		_, _ = render.Harmless{To: r.Err, JSON: true}.Write(r.describeJSON(err))
		return
	}
	var text bytes.Buffer
	r.describe(&text, err)
	if !journal.Reads(r.Err) {
		_, _ = render.Harmless{To: r.Err}.Write(text.Bytes())
		return
	}
	for line := range bytes.Lines(text.Bytes()) {
		// Stderr itself has failed: nobody can be told.
		_, _ = journal.Prefixed{Out: render.Harmless{To: r.Err}, Prefix: journal.Error}.Write(line)
	}
}

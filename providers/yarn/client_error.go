package yarn

import (
	"fmt"
	"strings"

	"github.com/bursar/bursar/internal/spelling"
)

// Trouble is why a server did not give what it was asked for.
type Trouble string

// The troubles.
const (
	// Unreachable: no connection, or it broke, or nothing came in time.
	Unreachable Trouble = "does not answer"
	// NotAsked: there was no time left to ask it, or no request of those that the settings allow.
	NotAsked Trouble = "was not asked"
	// NotInCharge: a standby ResourceManager, or one that knows no active one.
	NotInCharge Trouble = "is not in charge"
	// NotAllowed: it does not accept our identity, or we cannot prove it.
	NotAllowed Trouble = "refuses us"
	// Failing: it has an error of its own, as while it becomes active.
	Failing Trouble = "fails"
	// NoSuch: it has no such application.
	NoSuch Trouble = "has no such thing"
	// Senseless: what it says is not what a ResourceManager says.
	Senseless Trouble = "is not understood"
)

// ServerError is what one server said or did in place of an answer.
type ServerError struct {
	Address string
	Trouble Trouble
	// Status is the HTTP status; 0: there was none.
	Status int
	// Said is the beginning of what it said, without markup.
	Said string
	Err  error

	// hide takes our secrets out of the text; nil: there is none.
	hide func(string) string
}

func (e *ServerError) Error() string {
	hide := e.hide
	if hide == nil {
		hide = func(text string) string { return text }
	}
	var b strings.Builder
	b.WriteString(e.Address + " " + string(e.Trouble))
	if e.Status != 0 && e.Status != 200 {
		fmt.Fprintf(&b, " (HTTP status %d)", e.Status)
	}
	if e.Err != nil {
		b.WriteString(": " + spelling.Line(hide(e.Err.Error()), maxError))
	}
	if e.Said != "" {
		fmt.Fprintf(&b, ": %q", e.Said)
	}
	return hide(b.String())
}

// Unwrap returns the cause, nil if there is none.
func (e *ServerError) Unwrap() error { return e.Err }

// TooLargeError refuses an answer that does not end in time.
type TooLargeError struct {
	// Limit is the setting maxBytes.
	Limit int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the answer is longer than %d bytes: see the setting %s", e.Limit, settingMaxBytes)
}

// serversError is what each of several servers said.
type serversError []error

func (e serversError) Error() string {
	texts := make([]string, len(e))
	for i, err := range e {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns them in the order of the addresses.
func (e serversError) Unwrap() []error { return e }

package yarn

import (
	"fmt"
	"strings"

	"github.com/bursar/bursar/internal/spelling"
)

// Trouble classifies the failure of a request.
type Trouble string

// The classes.
const (
	// Unreachable: the connection failed or broke, or no answer came in time.
	Unreachable Trouble = "does not answer"
	// NotAsked: no time was left, or the limit requestsPerMinute was reached.
	NotAsked Trouble = "was not asked"
	// NotInCharge: a standby ResourceManager, or one that knows no active one.
	NotInCharge Trouble = "is not in charge"
	// NotAllowed: the server rejects our identity, or we cannot prove it.
	NotAllowed Trouble = "refuses us"
	// Failing: the server has an internal error, for example while it becomes active.
	Failing Trouble = "fails"
	// NoSuch: the server has no such application.
	NoSuch Trouble = "has no such thing"
	// Senseless: the response is not that of a ResourceManager.
	Senseless Trouble = "is not understood"
)

// ServerError is the failure of a request to one server.
type ServerError struct {
	Address string
	Trouble Trouble
	// Status is the HTTP status; 0 if there was no response.
	Status int
	// Said is the beginning of the response's text, without markup.
	Said string
	Err  error

	// hide removes our secrets from the text; nil if there are none.
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

// TooLargeError rejects an answer that is longer than the limit.
type TooLargeError struct {
	// Limit is the setting maxBytes.
	Limit int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the answer is longer than %d bytes: see the setting %s", e.Limit, settingMaxBytes)
}

// serversError holds one error per server.
type serversError []error

func (e serversError) Error() string {
	texts := make([]string, len(e))
	for i, err := range e {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the errors in the order of the addresses.
func (e serversError) Unwrap() []error { return e }

package yarn

import (
	"strings"

	"github.com/bursar/bursar/internal/spelling"
)

// Refusal is the reason why an answer cannot be read as a scheduler's.
type Refusal string

// Reasons.
const (
	// NotJSON: a page or a text, such as a proxy's error or a login page.
	NotJSON Refusal = "not JSON"
	// XML: a ResourceManager's answer to a request that does not accept JSON.
	XML Refusal = "XML"
	// Standby: the text of a standby ResourceManager that points to the active one.
	Standby Refusal = "a standby ResourceManager"
	// NoneActive: the text of a ResourceManager that knows no active one.
	NoneActive Refusal = "no active ResourceManager"
	// RemoteException: the ResourceManager failed and reports the reason.
	RemoteException Refusal = "an exception of the ResourceManager"
	// Federation: a router in front of several clusters. The provider must ask each cluster
	// directly.
	Federation Refusal = "a federation router"
	// Malformed: truncated or invalid JSON, or JSON that does not have the structure of a
	// scheduler.
	Malformed Refusal = "malformed"
	// Excessive: more queues, deeper nesting, or longer names than any real cluster has.
	Excessive Refusal = "excessive"
)

// AnswerError rejects an answer.
type AnswerError struct {
	Refusal Refusal
	// Detail is for people: the beginning of a text, the message of an exception, or the fault and
	// its place.
	Detail string
	// Err is the cause, if there is one.
	Err error
}

func (e *AnswerError) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Refusal))
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return spelling.Line(b.String(), maxError)
}

// Unwrap returns the cause.
func (e *AnswerError) Unwrap() error { return e.Err }

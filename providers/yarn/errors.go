package yarn

import (
	"strings"

	"github.com/bursar/bursar/internal/spelling"
)

// Refusal is why an answer cannot be read as that of a scheduler.
type Refusal string

// Reasons.
const (
	// NotJSON: a page or a text, such as of a proxy or a login.
	NotJSON Refusal = "not JSON"
	// XML: what a ResourceManager says to who asks for no JSON.
	XML Refusal = "XML"
	// Standby: the text of a ResourceManager that is not in charge and points to another.
	Standby Refusal = "a standby ResourceManager"
	// NoneActive: the text of a ResourceManager that knows of none in charge.
	NoneActive Refusal = "no active ResourceManager"
	// RemoteException: the ResourceManager failed, and says how.
	RemoteException Refusal = "an exception of the ResourceManager"
	// Federation: a router before several clusters. Each cluster must be asked itself.
	Federation Refusal = "a federation router"
	// Malformed: JSON that breaks off, is no JSON after all, or has not the shape of a scheduler.
	Malformed Refusal = "malformed"
	// Excessive: more queues, deeper, or longer names than any cluster has.
	Excessive Refusal = "excessive"
)

// AnswerError refuses an answer.
type AnswerError struct {
	Refusal Refusal
	// Detail is for a person: the beginning of a text, the message of an exception, what is wrong
	// and its place.
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

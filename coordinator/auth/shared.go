package auth

import (
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/identity"
)

// SharedAnswer is a message of a stream that is encoded once for all callers with the same view of
// it. It is not a message itself: the Auditor decides which view is sent.
type SharedAnswer interface {
	// OutputOf returns the user of the engine whose output the message contains, and false if it
	// contains no output.
	OutputOf() (user string, ok bool)
	// Redacted returns the view to send, a convert.Encoded: whole, or without the output of
	// engines. It calls redact on the message before it encodes it.
	Redacted(whole bool, redact func(proto.Message)) any
}

// sharing redacts the shared answers of one stream.
type sharing struct {
	actor  identity.Actor
	redact func(proto.Message)
}

func newSharing(r *redactor, actor identity.Actor) sharing {
	return sharing{actor, func(message proto.Message) { r.redact(actor, message) }}
}

// view returns the view of an answer for the actor. It is the same for all actors with the same
// result of access.MaySeeOutput: redactAllocation depends on nothing else of its actor.
func (s *sharing) view(answer SharedAnswer) any {
	user, ok := answer.OutputOf()
	return answer.Redacted(!ok || access.MaySeeOutput(s.actor, user), s.redact)
}

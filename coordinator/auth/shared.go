package auth

import (
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/identity"
)

// SharedAnswer is a message of a stream that is encoded once for all callers who may see the same
// of it. It is no message itself: the Auditor decides what of it is sent.
type SharedAnswer interface {
	// OutputOf is the user whose engine wrote something that is in the message, and false if there
	// is no such thing in it.
	OutputOf() (user string, ok bool)
	// Redacted is what to send, a convert.Encoded: whole, or without what engines wrote. redact
	// leaves in the message what belongs into it, and is called before it is encoded.
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

// view is the part of an answer that the actor may see. It is the same for all actors for whom
// access.MaySeeOutput says the same: redactAllocation asks nothing else about its actor.
func (s *sharing) view(answer SharedAnswer) any {
	user, ok := answer.OutputOf()
	return answer.Redacted(!ok || access.MaySeeOutput(s.actor, user), s.redact)
}

package coordinator

import (
	"context"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/turns"
	"github.com/bursar/bursar/internal/identity"
)

func originOf(ctx context.Context) *core.Origin {
	c, ok := auth.FromContext(ctx)
	if !ok || c.Procedure == "" {
		return nil
	}
	return &core.Origin{Procedure: c.Procedure, Caller: c.Actor.Name, Message: c.Message}
}

// ownerOf is in whose turn a call's commands are applied: that of the actor in whose name it is
// made, or of the one who is charged for that actor. A caller of a host's agent has a turn of its
// own on each host, because only the agent identifies it. A call that did not come over the wire
// is the coordinator's own.
func ownerOf(ctx context.Context) turns.Owner {
	c, ok := auth.FromContext(ctx)
	if !ok {
		return turns.Owner{Class: turns.Hosts}
	}
	switch {
	case c.Actor.Effective() == identity.Agent:
		return turns.Owner{Class: turns.Hosts, Name: c.Actor.Host}
	case c.Actor.IsOperator():
		return turns.Owner{Class: turns.Operators, Name: c.Actor.Name}
	default:
		return turns.Owner{Class: turns.Callers, Name: c.Actor.ChargedName()}
	}
}

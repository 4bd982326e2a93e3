package coordinator

import (
	"context"
	"net/netip"

	"github.com/bursar/bursar/identity"
)

// caller is who a call is from, as the gate has found out.
type caller struct {
	actor identity.Actor // in whose name it is made
	maker identity.Actor // who made it: the actor, or an agent or coordinator that passes it on
	peer  string         // the address it came from
	// recheck looks again whether the call would be let through as it was, for those that last. Nil: nobody has looked.
	recheck func() error
}

type callerKey struct{}

// callerOf returns who a call is from. What did not come through the gate is this process's own.
func callerOf(ctx context.Context) *caller {
	if c, ok := ctx.Value(callerKey{}).(*caller); ok {
		return c
	}
	return &caller{actor: identity.Local(), maker: identity.Local()}
}

// actorOf says in whose name a call is made.
func actorOf(ctx context.Context) identity.Actor { return callerOf(ctx).actor }

// via is who has passed a call on; empty where nobody has.
func (c *caller) via() string {
	if c.maker.Name == c.actor.Name {
		return ""
	}
	return c.maker.Name
}

// remote is whoever comes from another machine to a coordinator that knows nobody.
func remote() identity.Actor {
	actor := identity.Local()
	actor.Name = "remote"
	return actor
}

// isLocal reports whether a peer is this machine.
func isLocal(peer string) bool {
	address, err := netip.ParseAddrPort(peer)
	return err != nil || address.Addr().Unmap().IsLoopback()
}

// isInternal reports whether a peer is this process: what is no IP address comes from a listener that exists only in here.
func isInternal(peer string) bool {
	_, err := netip.ParseAddrPort(peer)
	return err != nil
}

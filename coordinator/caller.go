package coordinator

import (
	"context"
	"net/netip"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// caller is who a call is from, as the gate has found out.
type caller struct {
	actor identity.Actor // in whose name it is made
	maker identity.Actor // who made it: the actor, or an agent or coordinator that passes it on
	peer  string         // the address it came from
	// recheck looks again whether the call would be let through as it was, for those that last. Nil: nobody has looked.
	recheck func() error
	// account is on whom what the caller has here is counted, and limits what bounds it; nil: it did not come over the wire.
	account admission.Caller
	limits  *admission.Controller
	// answer is what is counted of the answer; nil: nothing is.
	answer *admission.Answer
	// origin is of the call's commands. Empty: it is not known yet, or a stream.
	origin Origin
}

// wait counts a request that waits for resources.
func (c *caller) wait() (ended func(), err error) {
	if c.limits == nil {
		return func() {}, nil
	}
	return c.limits.Wait(c.account)
}

// stream counts a stream.
func (c *caller) stream() (ended func(), err error) {
	if c.limits == nil {
		return func() {}, nil
	}
	return c.limits.Stream(c.account)
}

// expect counts a page before it is made, as large as it may become: so nobody has more of them made at a time than may be sent. What is
// asked for of quotas is their accounts, and rules come before them.
func (c *caller) expect(message any) (err error) {
	asked, paged := message.(interface{ GetPageSize() int32 })
	if c.limits == nil || !paged {
		return nil
	}
	most := pageMost
	if _, quotas := message.(*bursarv1.QuotaServiceListRequest); !quotas {
		most = min(most, pageSize(asked.GetPageSize())*convert.MaxAllocationSize)
	}
	c.answer, err = c.limits.Answer(c.account, most)
	return err
}

// answers counts an answer until it is sent, if it is a large one.
func (c *caller) answers(message any) (err error) {
	m, ok := message.(proto.Message)
	if c.limits == nil || !ok {
		return nil
	}
	size := proto.Size(m)
	switch {
	case c.answer != nil:
		c.answer.Resize(size)
	case size >= countedFrom:
		c.answer, err = c.limits.Answer(c.account, size)
	}
	return err
}

// answered says that the answer is sent.
func (c *caller) answered() {
	if c.answer != nil {
		c.answer.End()
	}
}

// accountOf is on whom what a caller has here is counted. Callers of a host's agent share one account: it is the agent that says who they are.
// Whoever has no identity is known by an address.
func accountOf(c *caller) admission.Caller {
	switch {
	case c.isAnonymous():
		if at, err := netip.ParseAddrPort(c.peer); err == nil {
			return admission.OfAddress(at.Addr())
		}
		return admission.Caller{ID: "address/" + c.peer, Name: c.peer}
	case c.actor.Host != "":
		return admission.Caller{ID: "host/" + c.actor.Host, Name: "callers of host " + c.actor.Host}
	default:
		return admission.Caller{ID: "caller/" + c.actor.Name, Name: c.actor.Name}
	}
}

// isAnonymous reports whether an address is all that tells a caller from others.
func (c *caller) isAnonymous() bool {
	return c.actor.Name == "" || c.maker.Name == remoteName && c.maker.Anyone
}

// remoteName is what whoever comes from another machine is called by a coordinator that knows nobody.
const remoteName = "remote"

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

// passedOn reports whether a coordinator has passed the call on.
func (c *caller) passedOn() bool {
	return c.via() != "" && c.maker.Effective() != identity.Agent
}

// remote is whoever comes from another machine to a coordinator that knows nobody.
func remote() identity.Actor {
	actor := identity.Local()
	actor.Name = remoteName
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

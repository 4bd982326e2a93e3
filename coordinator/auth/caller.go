package auth

import (
	"context"
	"net/netip"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/identity"
)

// Caller is who makes a call, as far as it is known before the body is read. It belongs to the
// call.
type Caller struct {
	// Actor is the one in whose name the call is made.
	Actor identity.Actor
	// Maker is who made it: the actor, or an agent or coordinator that passes it on.
	Maker identity.Actor
	// Peer is the address it came from.
	Peer string
	// Procedure and Message are what is called, and the request. They are empty until they are
	// known, and for a stream.
	Procedure string
	Message   proto.Message
	// SeesFaults reports whether a probe's answer may say exactly what is wrong here. A probe needs
	// no identity, but the caller has shown one that may read.
	SeesFaults bool

	// recheck checks again whether the call would be let through as it was, for calls that last.
	// Nil: the call was not checked.
	recheck func() error
	// account is what the call is counted on, and limits bounds it. Nil limits: the call did not
	// come over the wire.
	account admission.Caller
	limits  *admission.Controller
	// answer is what is counted of the answer. Nil: nothing is counted.
	answer *admission.Answer
	// waits ends that the call counts as one that waits. Nil: it does not, or somebody else has to
	// end it.
	waits *func()
	// mayStill is how many messages a stream may send that were counted before.
	mayStill int
}

// KeepWaiting lets a request count as one that waits after its call, until ended is called.
func KeepWaiting(ctx context.Context) (ended func()) {
	c := CallerOf(ctx)
	if c.waits == nil {
		return func() {}
	}
	ended = *c.waits
	c.waits = nil
	return ended
}

// countWait counts a request that waits for resources.
func (c *Caller) countWait() (ended func(), err error) {
	if c.limits == nil {
		return func() {}, nil
	}
	return c.limits.Wait(c.account)
}

// countStream counts a stream.
func (c *Caller) countStream() (ended func(), err error) {
	if c.limits == nil {
		return func() {}, nil
	}
	return c.limits.Stream(c.account)
}

// send waits until a stream of the caller may send one more message.
func (c *Caller) send(ctx context.Context) error {
	switch {
	case c.limits == nil:
		return nil
	case c.mayStill > 0:
		c.mayStill--
		return nil
	}
	return c.limits.Send(ctx, c.account)
}

// MaySend waits until a stream may send so many messages, and counts them. They are sent next, and
// together: they do not wait for each other any more. The goroutine that sends calls it.
func MaySend(ctx context.Context, messages int) error {
	c := CallerOf(ctx)
	if c.limits == nil {
		return nil
	}
	if err := c.limits.SendMany(ctx, c.account, messages); err != nil {
		return err //nolint:wrapcheck // the context's
	}
	c.mayStill = messages
	return nil
}

// countPage counts a page before it is made, at the largest size that it may have. So no caller
// has more pages made at a time than may be sent. 0: it is no page.
func (c *Caller) countPage(most int) (err error) {
	if c.limits == nil || most == 0 {
		return nil
	}
	c.answer, err = c.limits.Answer(c.account, most)
	return err
}

// countAnswer counts an answer until it is sent, if it is a large one.
func (c *Caller) countAnswer(message any) (err error) {
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

// answerSent says that the answer is sent.
func (c *Caller) answerSent() {
	if c.answer != nil {
		c.answer.End()
	}
}

// accountOf is what a caller's calls are counted on. Callers of a host's agent share one account,
// because only the agent says who they are. A caller without an identity is known by an address.
func accountOf(c *Caller) admission.Caller {
	switch {
	case c.isAnonymous():
		if at, err := netip.ParseAddrPort(c.Peer); err == nil {
			return admission.OfAddress(at.Addr())
		}
		return admission.Caller{ID: "address/" + c.Peer, Name: c.Peer}
	case c.Actor.Host != "":
		return admission.Caller{ID: "host/" + c.Actor.Host, Name: "callers of host " + c.Actor.Host}
	default:
		return admission.Caller{ID: "caller/" + c.Actor.ChargedName(), Name: c.Actor.ChargedName()}
	}
}

// isAnonymous reports whether an address is all that tells a caller from others.
func (c *Caller) isAnonymous() bool {
	return c.Actor.Name == "" || c.Maker.Name == remoteName && c.Maker.Anyone
}

// remoteName is the name of a caller from another machine, at a coordinator that knows no
// identities.
const remoteName = "remote"

type callerKey struct{}

// WithCaller returns the context of a call from a caller.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// FromContext returns who a call is from, and false if it did not come through NewHandler.
func FromContext(ctx context.Context) (c *Caller, ok bool) {
	c, ok = ctx.Value(callerKey{}).(*Caller)
	return c, ok
}

// CallerOf returns who a call is from. What did not come through NewHandler is this process's own.
func CallerOf(ctx context.Context) *Caller {
	if c, ok := FromContext(ctx); ok {
		return c
	}
	return &Caller{Actor: identity.Local(), Maker: identity.Local()}
}

// ActorOf returns the one in whose name a call is made.
func ActorOf(ctx context.Context) identity.Actor { return CallerOf(ctx).Actor }

// via is who has passed a call on. It is empty if nobody has.
func (c *Caller) via() string {
	if c.Maker.Name == c.Actor.Name {
		return ""
	}
	return c.Maker.Name
}

// passedOn reports whether a coordinator has passed the call on.
func (c *Caller) passedOn() bool {
	return c.via() != "" && c.Maker.Effective() != identity.Agent
}

// PassedOn reports whether a coordinator has passed on the call of ctx.
func PassedOn(ctx context.Context) bool { return CallerOf(ctx).passedOn() }

// isShared reports whether the call came over a connection of an agent or of a coordinator: these
// make calls of several callers over one connection.
func (c *Caller) isShared() bool {
	switch c.Maker.Effective() {
	case identity.Agent, identity.Coordinator:
		return true
	default:
		return c.passedOn() // by a coordinator without an identity
	}
}

// remote is a caller from another machine, at a coordinator that knows no identities.
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

// isInternal reports whether a peer is this process. A peer that is no IP address comes from a
// listener that exists only in this process.
func isInternal(peer string) bool {
	_, err := netip.ParseAddrPort(peer)
	return err != nil
}

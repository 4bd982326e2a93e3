package auth

import (
	"context"
	"net/netip"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/identity"
)

// Caller is the caller of a call, as far as it is known before the body is read. It belongs to the
// call.
type Caller struct {
	// Actor is the actor in whose name the call is made.
	Actor identity.Actor
	// Maker has made the call: the actor, or an agent or coordinator that forwards it.
	Maker identity.Actor
	// Peer is the remote address.
	Peer string
	// Procedure and Message are the procedure and the request. They are empty until they are known,
	// and for a stream.
	Procedure string
	Message   proto.Message
	// SeesFaults reports whether the answer to a probe may describe faults of this coordinator. A
	// probe needs no identity, but this caller has one that may read.
	SeesFaults bool

	// recheck checks again whether the call would be admitted, for long calls. Nil: the call was
	// not checked.
	recheck func() error
	// account is the account of the call, and limits bounds it. Nil limits: the call did not come
	// over the wire.
	account admission.Caller
	limits  *admission.Controller
	// answer is the counted size of the answer. Nil: not counted.
	answer *admission.Answer
	// waits ends the count of the call as a waiting one. Nil: it does not count so, or KeepWaiting
	// has passed the duty on.
	waits *func()
	// mayStill is how many messages a stream may send that MaySend has counted.
	mayStill int
}

// KeepWaiting keeps a request counted as waiting after its call, until ended is called.
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

// MaySend waits until a stream may send so many messages, and counts them. The stream sends them
// next, without another wait between them. The goroutine that sends calls MaySend.
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

// countPage counts a page before it is made, at its largest possible size. So a caller never has
// more pages made at a time than may be sent. 0: the request asks for no page.
func (c *Caller) countPage(most int) (err error) {
	if c.limits == nil || most == 0 {
		return nil
	}
	c.answer, err = c.limits.Answer(c.account, most)
	return err
}

// countAnswer counts an answer until it is sent. Without a page it counts large answers only.
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

// answerSent ends the count of the answer.
func (c *Caller) answerSent() {
	if c.answer != nil {
		c.answer.End()
	}
}

// accountOf returns the account of a caller. Callers of a host's agent share one account, because
// only the agent vouches for their names. A caller without an identity counts on its address.
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

// isAnonymous reports whether only an address identifies the caller.
func (c *Caller) isAnonymous() bool {
	return c.Actor.Name == "" || c.Maker.Name == remoteName && c.Maker.Anyone
}

// remoteName is the name of a caller from another machine, at a coordinator without identities.
const remoteName = "remote"

type callerKey struct{}

// WithCaller returns the context of a call from a caller.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// FromContext returns the caller of a call, and false if the call did not come through NewHandler.
func FromContext(ctx context.Context) (c *Caller, ok bool) {
	c, ok = ctx.Value(callerKey{}).(*Caller)
	return c, ok
}

// CallerOf returns the caller of a call. Calls that did not come through NewHandler are this
// process's.
func CallerOf(ctx context.Context) *Caller {
	if c, ok := FromContext(ctx); ok {
		return c
	}
	return &Caller{Actor: identity.Local(), Maker: identity.Local()}
}

// ActorOf returns the actor in whose name a call is made.
func ActorOf(ctx context.Context) identity.Actor { return CallerOf(ctx).Actor }

// via returns the name of the agent or coordinator that forwarded the call; empty if none did.
func (c *Caller) via() string {
	if c.Maker.Name == c.Actor.Name {
		return ""
	}
	return c.Maker.Name
}

// passedOn reports whether a coordinator has forwarded the call.
func (c *Caller) passedOn() bool {
	return c.via() != "" && c.Maker.Effective() != identity.Agent
}

// PassedOn reports whether a coordinator has forwarded the call of ctx.
func PassedOn(ctx context.Context) bool { return CallerOf(ctx).passedOn() }

// isShared reports whether the call came over a connection of an agent or of a coordinator. Such a
// connection carries calls of several callers.
func (c *Caller) isShared() bool {
	switch c.Maker.Effective() {
	case identity.Agent, identity.Coordinator:
		return true
	default:
		return c.passedOn() // by a coordinator without an identity
	}
}

// remote returns the actor of a caller from another machine, at a coordinator without identities.
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

// isInternal reports whether a peer is this process. A peer address that is not an IP address comes
// from a listener within this process.
func isInternal(peer string) bool {
	_, err := netip.ParseAddrPort(peer)
	return err != nil
}

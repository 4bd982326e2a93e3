package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// gate finds out who a request is from, before anything of its body is read, and lets through what the table of permissions lets that
// one do. What it puts into the context callerOf returns.
type gate struct {
	next     http.Handler
	who      *access.Authenticator
	insecure bool
	machine  neighbours
	audit    *auditLog
	refuse   *connect.ErrorWriter
	// nameless lets something answer that was not let through.
	nameless func(http.ResponseWriter, *http.Request, http.HandlerFunc)
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := g.admit(r)
	if err != nil {
		g.audit.refused(r.URL.Path, c, nil, rpcError(err))
		if connect.CodeOf(rpcError(err)) == connect.CodeUnauthenticated {
			w.Header().Set("WWW-Authenticate", `Bearer realm="bursar"`)
		}
		g.nameless(w, r, func(w http.ResponseWriter, r *http.Request) {
			_ = g.refuse.Write(w, r, rpcError(err)) // nobody is left to tell
		})
		return
	}
	c.account = g.machine.counted(c)
	c.recheck = func() error { return g.recheck(r, c) }
	g.next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
}

// admit says who makes a request, also where it is refused, as far as that is known.
func (g *gate) admit(r *http.Request) (*caller, error) {
	c := &caller{peer: r.RemoteAddr}
	rule := access.RuleOf(r.URL.Path)
	if rule.Open || rule.OpenHere && isLocal(r.RemoteAddr) {
		return c, nil
	}
	claimed := r.Header.Get(identity.Header)
	var err error
	if !g.who.Set() || isInternal(r.RemoteAddr) {
		c.maker, c.actor, err = g.believed(r, claimed)
	} else if c.maker, err = g.who.Authenticate(r.Header, r.TLS); err == nil {
		c.actor = c.maker
		var named identity.Actor
		if named, err = access.Speak(c.maker, claimed); err == nil {
			c.actor = named
		}
	}
	if err != nil {
		return c, asDenied(err)
	}
	permitted, err := rule.Permit(c.maker, c.actor, r.URL.Path)
	if err != nil {
		return c, err
	}
	c.actor = permitted
	return c, nil
}

// believed is who somebody is where nobody is known: within the process, and over loopback for root and this coordinator's own user, whom
// the header names, such as the user that an agent knows from its socket, or else somebody who may do everything. Over loopback other users
// are themselves, whatever the header says. From elsewhere it is worth nothing, and believed only where everything is.
func (g *gate) believed(r *http.Request, claimed string) (maker, actor identity.Actor, err error) {
	peer := r.RemoteAddr
	maker = identity.Local()
	switch {
	case isInternal(peer):
	case isLocal(peer):
		if maker, err = g.machine.of(r); err != nil {
			return maker, maker, err
		}
	default:
		maker = remote()
	}
	switch {
	case claimed == "":
		return maker, maker, nil
	case isLocal(peer) && !maker.Admin:
		return maker, maker, fieldError(identity.Header, claimed, "no such header from another user than root and "+g.machine.name(g.machine.self)+", whom this coordinator runs as")
	case isLocal(peer) || g.insecure:
		actor, err = identity.Decode(claimed)
		return maker, actor, err
	default:
		return maker, maker, fieldError(identity.Header, claimed, "no such header from another machine, as long as this coordinator has neither identities nor tls.clientCA to know it by")
	}
}

// asDenied gives an error that has no code yet that of a header which cannot be read.
func asDenied(err error) error {
	if connect.CodeOf(rpcError(err)) == connect.CodeInternal {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	return err
}

// inspector looks at what the gate does not see, messages and answers: that what comes through a host's agent is about that host, what has
// to be written down, and that neither an answer nor an error has anything that its caller may not see. All of them pass it, a leader's too.
type inspector struct {
	audit    *auditLog
	time     *patience
	redactor *redactor
}

var _ connect.Interceptor = (*inspector)(nil)

// WrapUnary implements connect.Interceptor.
func (i *inspector) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		c := callerOf(ctx)
		err := ownHost(c.actor, req.Any())
		if message, ok := req.Any().(proto.Message); ok {
			c.origin = Origin{Procedure: req.Spec().Procedure, Caller: c.actor.Name, Message: message}
		}
		var res connect.AnyResponse
		if err == nil {
			res, err = next(ctx, req)
		}
		if err == nil {
			i.redactor.redact(c.actor, res.Any())
		}
		err = i.redactor.redactError(c.actor, advised(err))
		i.audit.answered(req.Spec().Procedure, c, req.Any(), rpcError(err))
		return res, err
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (i *inspector) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		c := callerOf(ctx)
		ctx, relieve := i.oversee(ctx, c)
		err := i.redactor.redactError(c.actor, advised(relieve(next(ctx, &inspected{conn, c.actor, i.redactor}))))
		i.audit.answered(conn.Spec().Procedure, c, nil, rpcError(err))
		return err
	}
}

// WrapStreamingClient implements connect.Interceptor; this is a server.
func (i *inspector) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// inspected is a stream whose requests and answers are looked at.
type inspected struct {
	connect.StreamingHandlerConn

	actor    identity.Actor
	redactor *redactor
}

// Send implements connect.StreamingHandlerConn.
func (s *inspected) Send(message any) error {
	s.redactor.redact(s.actor, message)
	return s.StreamingHandlerConn.Send(message) //nolint:wrapcheck // it has its code
}

// Receive implements connect.StreamingHandlerConn.
func (s *inspected) Receive(message any) error {
	if err := s.StreamingHandlerConn.Receive(message); err != nil {
		return err //nolint:wrapcheck // io.EOF must stay as it is
	}
	return rpcError(ownHost(s.actor, message))
}

// ownHost refuses what comes through a host's agent, or from it, and names another host. A question about no host in particular
// becomes one about its own.
func ownHost(actor identity.Actor, message any) error {
	if actor.Host == "" {
		return nil
	}
	switch m := message.(type) {
	case *bursarv1.RegisterRequest:
		return itself(actor, m.GetHostId(), "register")
	case *bursarv1.SyncRequest:
		return itself(actor, m.GetHostId(), "report")
	case *bursarv1.DeregisterRequest:
		return itself(actor, m.GetHostId(), "deregister")
	case *bursarv1.AllocateRequest:
		return isOwn(actor, m.GetHost().GetId(), "allocate on")
	case *bursarv1.ExplainRequest:
		if m.GetRequest() == nil {
			return nil
		}
		return isOwn(actor, m.GetRequest().GetHost().GetId(), "allocate on")
	case *bursarv1.AllocationServiceListRequest:
		if m.GetHostId() == "" {
			m.HostId = actor.Host
		}
		return isOwn(actor, m.GetHostId(), "see allocations of")
	case *bursarv1.AllocationServiceWatchRequest:
		if m.GetHostId() == "" {
			m.HostId = actor.Host
		}
		return isOwn(actor, m.GetHostId(), "see allocations of")
	default:
		return nil
	}
}

// itself refuses an agent that says another host's id than its identity has: one of both is wrong where that agent runs.
func itself(actor identity.Actor, host, verb string) error {
	if host == actor.Host {
		return nil
	}
	return &access.DeniedError{
		Actor: actor.Name, What: fmt.Sprintf("%s: hostId is %q, the identity is for host %q", verb, host, actor.Host),
		Want: fmt.Sprintf("hostId: %s, or a token (certificate) of %s", actor.Host, host),
	}
}

func isOwn(actor identity.Actor, host, verb string) error {
	if host == actor.Host {
		return nil
	}
	what := fmt.Sprintf("%s host %s", verb, host)
	if host == "" {
		what = verb + " any host"
	}
	return &access.DeniedError{Actor: actor.Name, What: what, Want: otherHost(actor)}
}

func otherHost(actor identity.Actor) string {
	return fmt.Sprintf("host %s, through whose agent the call came; a coordinator takes calls about any host from callers it knows themselves", actor.Host)
}

// onOwnHost refuses an allocation of another host to what came through a host's agent, as long as it is live; s.ended does for those
// that are not.
func onOwnHost(l *ledger.Ledger, actor identity.Actor, id ledger.ID) error {
	if actor.Host == "" {
		return nil
	}
	a, live := l.Get(id)
	if !live {
		return nil
	}
	return ofOwnHost(actor, &a)
}

func ofOwnHost(actor identity.Actor, a *ledger.Allocation) error {
	if actor.Host == "" || a.HostID == actor.Host {
		return nil
	}
	return &access.DeniedError{Actor: actor.Name, What: fmt.Sprintf("see or change allocation %s: it is not on host %s", a.ID, actor.Host), Want: otherHost(actor)}
}

// advised says what to do where the ledger has refused an actor: it knows what they may do, not where that is written.
func advised(err error) error {
	if denied, ok := errors.AsType[*ledger.DeniedError](err); !ok || denied.Instead != "" {
		return err
	}
	return fmt.Errorf("%w: want a caller that may (users and priority in the coordinator's file of identities, trustedUsers at an agent), or an operator", err)
}

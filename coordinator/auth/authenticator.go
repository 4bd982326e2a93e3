package auth

import (
	"net/http"
	"slices"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// authenticator authenticates a request before its body is read, and admits it if the table of
// permissions allows it. It stores the Caller in the context, see CallerOf.
type authenticator struct {
	next     http.Handler
	who      *access.Authenticator
	insecure bool
	// localMayLaunch is HandlerOptions.LocalMayLaunch.
	localMayLaunch []string
	machine        peerCreds
	audit          *AuditLog
	code           func(error) error
	refuse         *connect.ErrorWriter
	// denied answers a refused request within the limits.
	denied func(http.ResponseWriter, *http.Request, *Caller, http.HandlerFunc)
}

func (a *authenticator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := a.admit(r)
	c.account = a.machine.accountOf(c)
	if err != nil {
		a.audit.recordRefusal(r.URL.Path, c, nil, a.code(err))
		a.denied(w, r, c, func(w http.ResponseWriter, r *http.Request) {
			if connect.CodeOf(a.code(err)) == connect.CodeUnauthenticated {
				w.Header().Set("WWW-Authenticate", `Bearer realm="bursar"`)
			}
			_ = a.refuse.Write(w, r, a.code(err)) // it fails if the caller has gone
		})
		return
	}
	c.recheck = func() error { return a.recheck(r, c) }
	a.next.ServeHTTP(w, r.WithContext(WithCaller(r.Context(), c)))
}

// admit returns the caller of a request, as far as it is known, also together with an error.
func (a *authenticator) admit(r *http.Request) (*Caller, error) {
	c := &Caller{Peer: r.RemoteAddr}
	rule := access.RuleOf(r.URL.Path)
	if rule.Open || rule.OpenHere && isLocal(r.RemoteAddr) {
		c.SeesFaults = rule.Open && a.seesFaults(r)
		return c, nil
	}
	if err := a.identify(r, c); err != nil {
		return c, a.withCode(err)
	}
	permitted, err := rule.Permit(c.Maker, c.Actor, r.URL.Path)
	if err != nil {
		return c, err
	}
	c.Actor = permitted
	return c, nil
}

// seesFaults reports whether a caller of an open page has an identity that may read pages. A caller
// without valid credentials gets an answer all the same, as an anonymous caller.
func (a *authenticator) seesFaults(r *http.Request) bool {
	if r.URL.Path != "/readyz" { // no other open page names a fault
		return false
	}
	var c Caller
	if a.identify(r, &c) != nil {
		return false
	}
	_, err := access.RuleOf("/metrics").Permit(c.Maker, c.Actor, "/metrics")
	return err == nil
}

// identify sets the maker and the actor of a request.
func (a *authenticator) identify(r *http.Request, c *Caller) error {
	claimed := r.Header.Get(identity.Header)
	var err error
	if !a.who.Set() || isInternal(r.RemoteAddr) {
		c.Maker, c.Actor, err = a.assumedActor(r, claimed)
	} else if c.Maker, err = a.who.Authenticate(r.Header, r.TLS); err == nil {
		c.Actor = c.Maker
		var named identity.Actor
		if named, err = access.ActFor(c.Maker, claimed); err == nil {
			c.Actor = named
		}
	}
	return err
}

// assumedActor returns the actor of a call if no identities are configured. There are three cases.
// Within the process, and over loopback for root and for this coordinator's own user, it is the
// actor in the header, such as the user of an agent's socket. Without the header it is an actor
// with all rights. Over loopback, other users act as themselves, and may not send the header. From
// another machine, the coordinator accepts the header only if it is insecure.
func (a *authenticator) assumedActor(r *http.Request, claimed string) (maker, actor identity.Actor, err error) {
	peer := r.RemoteAddr
	maker = identity.Local()
	switch {
	case isInternal(peer):
	case isLocal(peer):
		if maker, err = a.machine.actorOf(r); err != nil {
			return maker, maker, err
		}
		maker.MayLaunch = a.launchesOf(maker)
	default:
		maker = remote()
	}
	switch {
	case claimed == "":
		return maker, maker, nil
	case isLocal(peer) && !maker.Admin:
		return maker, maker, invalid(identity.Header, claimed, "no such header from another user than root and "+a.machine.ownUser()+", whom this coordinator runs as")
	case isLocal(peer) || a.insecure:
		actor, err = identity.Decode(claimed)
		if !isInternal(peer) { // a header gives no right to launch
			actor.MayLaunch = slices.DeleteFunc(actor.MayLaunch, func(account string) bool { return !slices.Contains(maker.MayLaunch, account) })
		}
		return maker, actor, err
	default:
		return maker, maker, invalid(identity.Header, claimed, "no such header from another machine, as long as this coordinator has neither identities nor tls.clientCA to know it by")
	}
}

// launchesOf returns the accounts under which a user of this machine may launch engines.
func (a *authenticator) launchesOf(maker identity.Actor) []string {
	if maker.Admin {
		return a.localMayLaunch
	}
	if user := maker.OnlyUser(); user != "" && slices.Contains(a.localMayLaunch, user) {
		return []string{user}
	}
	return nil
}

// withCode adds the code of an invalid header to an error that has no code yet.
func (a *authenticator) withCode(err error) error {
	if connect.CodeOf(a.code(err)) == connect.CodeInternal {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	return err
}

// invalid refuses a request because of a field, or of its header or body as a whole.
func invalid(field, value, want string) error {
	return &resource.FieldError{Field: field, Value: value, Want: want}
}

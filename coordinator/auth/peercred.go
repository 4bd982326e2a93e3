package auth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/localuser"
	"github.com/bursar/bursar/internal/sockdiag"
)

// peerCred is the user at the other end of a local connection: the owner of the socket, according
// to the kernel. The coordinator asks the kernel once, when the first request needs it.
type peerCred struct {
	conn net.Conn // nil: there is no connection
	once sync.Once
	uid  uint32
	err  error
}

type peerCredKey struct{}

// withPeerCred adds the peerCred of a connection to its context.
func withPeerCred(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, peerCredKey{}, &peerCred{conn: conn})
}

// peerCreds finds the users of local connections.
type peerCreds struct {
	self  uint32
	owner func(local, remote netip.AddrPort) (uid uint32, err error)
	users *localuser.Users
}

func thisMachine() peerCreds {
	self := uint32(os.Geteuid()) //nolint:gosec // a uid
	return peerCreds{self: self, owner: sockdiag.Owner, users: localuser.New(localuser.ThisMachine(), localuser.Options{})}
}

// actorOf returns the actor of a request over loopback. Root, and the user of this coordinator,
// have all rights. Any other user is a submitter that acts as itself, as on an agent's socket.
func (p peerCreds) actorOf(r *http.Request) (identity.Actor, error) {
	known, _ := r.Context().Value(peerCredKey{}).(*peerCred)
	if known == nil {
		known = &peerCred{}
	}
	known.once.Do(func() { known.uid, known.err = p.uidOf(r, known.conn) })
	switch uid := known.uid; {
	case known.err != nil:
		return identity.Actor{}, known.err
	case uid == 0 || uid == p.self:
		return identity.Local(), nil
	}
	// For each request: the name may change, or may not be known yet.
	user, err := p.users.Of(r.Context(), known.uid)
	if err != nil {
		return identity.Actor{}, connect.NewError(connect.CodeUnavailable, err)
	}
	return identity.Actor{Name: identity.LocalPrefix + user.Name, Users: []string{user.Name}, Role: identity.Submitter, Owner: user.Owner}, nil
}

// uidOf returns the user at the other end of a request's connection.
func (p peerCreds) uidOf(r *http.Request, conn net.Conn) (uint32, error) {
	other, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return 0, fmt.Errorf("peer %q: %w", r.RemoteAddr, err)
	}
	own, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return 0, errors.New("the request came over no connection")
	}
	here, err := netip.ParseAddrPort(own.String())
	if err != nil {
		return 0, fmt.Errorf("own address %q: %w", own, err)
	}
	uid, err := p.owner(other, here) // the peer's end of the connection belongs to its user
	if err == nil {
		err = sockdiag.StillOpen(conn)
	}
	if err != nil {
		return 0, connect.NewError(connect.CodeUnauthenticated,
			fmt.Errorf("whose connection this is cannot be told (%w): want one of a process of this machine, or identities in the coordinator's configuration", err))
	}
	return uid, nil
}

// ownUser returns the name of this coordinator's user, or its uid.
func (p peerCreds) ownUser() string {
	if user, err := p.users.WithoutLookup(p.self); err == nil {
		return user.Name
	}
	return strconv.FormatUint(uint64(p.self), 10)
}

// accountOf returns the account of a caller. All ids that belong to one user within namespaces are
// one account. A user of another machine, whose call its coordinator has forwarded, is never a user
// of this machine, even if the names are equal.
func (p peerCreds) accountOf(c *Caller) admission.Caller {
	account := accountOf(c)
	if !strings.HasPrefix(c.Actor.Name, identity.LocalPrefix) || c.Actor.Host != "" || !c.passedOn() {
		return account
	}
	name := c.Actor.ChargedName()
	return admission.Caller{ID: "caller/" + c.via() + "/" + name, Name: name + " of " + c.via()}
}

// ConnectionOwner returns the function that finds the owner of a local connection, for
// admission.ConnectionOptions.
func ConnectionOwner() func(net.Conn) admission.Caller { return thisMachine().connectionOwner }

// connectionOwner returns the account of a connection before its first request. Local connections
// count on their users, because these share the addresses of the machine.
func (p peerCreds) connectionOwner(conn net.Conn) admission.Caller {
	other, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return admission.Caller{}
	}
	here, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil || !other.Addr().Unmap().IsLoopback() && other.Addr().Unmap() != here.Addr().Unmap() {
		return admission.Caller{}
	}
	uid, err := p.owner(other, here)
	if err != nil { // it is closed, or the kernel does not answer
		return admission.Caller{}
	}
	account := p.users.Account(uid)
	return admission.Caller{ID: "user/" + account, Name: "user " + account + " of this machine"}
}

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
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/sockdiag"
	"github.com/bursar/bursar/internal/subuid"
)

// peerCred is the user at the other end of a connection within this machine: the kernel says who
// owns the socket. It is looked up once, when the first request needs it.
type peerCred struct {
	conn  net.Conn // nil: there is no connection
	once  sync.Once
	actor identity.Actor
	err   error
}

type peerCredKey struct{}

// withPeerCred has every connection remember its other end.
func withPeerCred(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, peerCredKey{}, &peerCred{conn: conn})
}

// peerCreds knows them.
type peerCreds struct {
	self  uint32
	owner func(local, remote netip.AddrPort) (uid uint32, err error)
	name  func(uid uint32) string
	// charged is the user who is charged for a uid, if that is another one.
	charged func(uid uint32, hasName bool) (user string, other bool)
}

func thisMachine() peerCreds {
	self := uint32(os.Geteuid()) //nolint:gosec // a uid
	return peerCreds{self: self, owner: sockdiag.Owner, name: sockdiag.UserName, charged: chargedBy(subuid.New(subuid.Path, time.Now))}
}

// chargedBy returns the function that names the user who is charged for a uid, by a file of ranges
// and the accounts of this machine.
func chargedBy(ranges *subuid.File) func(uid uint32, hasName bool) (user string, other bool) {
	nameOf := func(uid uint32) (string, bool) {
		name := sockdiag.UserName(uid)
		return name, isName(uid, name)
	}
	names := subuid.Names{NameOf: nameOf, UIDOf: sockdiag.UserID}
	return func(uid uint32, hasName bool) (string, bool) { return ranges.Charged(uid, hasName, names) }
}

// isName reports whether the answer of sockdiag.UserName for a uid is the name of its account.
func isName(uid uint32, name string) bool {
	return strings.TrimPrefix(name, sockdiag.UIDPrefix) != strconv.FormatUint(uint64(uid), 10)
}

// actorOf returns who makes a request over loopback. Root, and the user that this coordinator runs
// as, may do everything. Any other user is a submitter for themselves, as on an agent's socket.
func (p peerCreds) actorOf(r *http.Request) (identity.Actor, error) {
	known, _ := r.Context().Value(peerCredKey{}).(*peerCred)
	if known == nil {
		known = &peerCred{}
	}
	known.once.Do(func() { known.actor, known.err = p.lookUp(r, known.conn) })
	return known.actor, known.err
}

func (p peerCreds) lookUp(r *http.Request, conn net.Conn) (identity.Actor, error) {
	other, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return identity.Actor{}, fmt.Errorf("peer %q: %w", r.RemoteAddr, err)
	}
	own, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return identity.Actor{}, errors.New("the request came over no connection")
	}
	here, err := netip.ParseAddrPort(own.String())
	if err != nil {
		return identity.Actor{}, fmt.Errorf("own address %q: %w", own, err)
	}
	uid, err := p.owner(other, here) // the peer's end of the connection has its user
	if err == nil {
		err = sockdiag.StillOpen(conn)
	}
	if err != nil {
		return identity.Actor{}, connect.NewError(connect.CodeUnauthenticated,
			fmt.Errorf("whose connection this is cannot be told (%w): want one of a process of this machine, or identities in the coordinator's configuration", err))
	}
	if uid == 0 || uid == p.self {
		return identity.Local(), nil
	}
	name := p.name(uid)
	actor := identity.Actor{Name: identity.LocalPrefix + name, Users: []string{name}, Role: identity.Submitter}
	actor.Owner, _ = p.charged(uid, isName(uid, name))
	return actor, nil
}

// accountOf is what a caller is counted on here. All ids that belong to one user within namespaces
// are one account. A user of another machine, whose call its coordinator has passed on, is never a
// user of this machine, whatever the name.
func (p peerCreds) accountOf(c *Caller) admission.Caller {
	account := accountOf(c)
	if !strings.HasPrefix(c.Actor.Name, identity.LocalPrefix) || c.Actor.Host != "" || !c.passedOn() {
		return account
	}
	name := c.Actor.ChargedName()
	return admission.Caller{ID: "caller/" + c.via() + "/" + name, Name: name + " of " + c.via()}
}

// ConnectionOwner returns the function that names the caller of a connection from this machine, for
// admission.ConnectionOptions.
func ConnectionOwner() func(net.Conn) admission.Caller { return thisMachine().connectionOwner }

// connectionOwner is what a connection is counted on before its first request has come.
// Connections of this machine count on their users, who share its addresses.
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
	if err != nil { // it is closed, or the kernel tells nothing
		return admission.Caller{}
	}
	// Nobody's name is looked up for a connection: there may be very many of them.
	account, charged := p.charged(uid, false)
	if !charged {
		account = strconv.FormatUint(uint64(uid), 10)
	}
	return admission.Caller{ID: "user/" + account, Name: "user " + account + " of this machine"}
}

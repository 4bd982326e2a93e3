package socket

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/localuser"
	"github.com/bursar/bursar/internal/sockdiag"
)

// Caller is the user at the other end of a connection.
type Caller struct {
	Actor identity.Actor
	// Header is the actor as it is passed on.
	Header string
	UID    uint32
	// Trusted callers may act as anyone, and confirm processes of others.
	Trusted bool
	// TCP: it may be anybody on this machine.
	TCP bool
	// account is what the caller's requests and connections count on; none, if the caller is
	// trusted.
	account admission.Caller
}

// GroupOf is the group of the process at the other end of the connection that a call came over;
// false: that is not known.
func GroupOf(ctx context.Context) (gid uint32, ok bool) {
	peer, ok := ctx.Value(peerKey{}).(*unix.Ucred)
	if !ok {
		return 0, false
	}
	return peer.Gid, true
}

type callerKey struct{}

// CallerOf returns who made the call that a context belongs to; nil: the call came over no
// connection.
func CallerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// WithCaller returns the context of a call that the caller makes.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// Counted is what a call of the caller counts on. A call that came over no connection is this
// process's own.
func (c *Caller) Counted() admission.Caller {
	if c == nil {
		return admission.Caller{}
	}
	return c.account
}

// Peers knows the callers by what the kernel says of their connections.
type Peers struct {
	hostID string
	self   uint32
	users  *localuser.Users
	// dialer is the user at the remote end of a connection of TCP within this machine.
	dialer func(remote, local netip.AddrPort) (uid uint32, err error)

	mu      sync.Mutex
	trusted []string // guarded by mu; names and uids
	// callers are the last ones, by uid. Guarded by mu.
	callers map[uint32]peer
}

// peer is a caller, and the user that it was made of.
type peer struct {
	caller *Caller
	user   *localuser.User
}

// newPeers returns the callers of an agent on a host, which runs as the user self. Trusted are
// names and uids.
func newPeers(hostID string, self uint32, trusted []string) *Peers {
	p := &Peers{hostID: hostID, self: self, trusted: trusted, dialer: sockdiag.Owner, callers: make(map[uint32]peer)}
	p.users = localuser.New(localuser.ThisMachine(), localuser.Options{Keep: p.isTrusted, Digits: p.isListed})
	return p
}

// Trust replaces the list of users who may act as anyone. It counts from the next request on.
func (p *Peers) Trust(users []string) {
	p.mu.Lock()
	p.trusted = users
	clear(p.callers)
	p.mu.Unlock()
	p.users.Forget()
}

// Caller returns a user of this machine with what they may do: act as themselves, or if they are
// trusted, as anyone. Each of them, also root, is only a submitter on this host: a coordinator
// grants an agent's callers no more.
//
// The only error is *localuser.UnsureError. The caller then may do nothing: it has the account of
// the refused request.
func (p *Peers) Caller(ctx context.Context, uid uint32) (*Caller, error) {
	user, err := p.users.Of(ctx, uid)
	if err != nil {
		return p.unsure(uid), err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if before := p.callers[uid]; before.user == user {
		return before.caller, nil
	}
	if len(p.callers) >= localuser.MostUsers {
		clear(p.callers)
	}
	c := p.callerLocked(uid, user)
	p.callers[uid] = peer{c, user}
	return c, nil
}

// unsure is a uid of which nobody knows now which user is charged for it.
func (p *Peers) unsure(uid uint32) *Caller {
	name := localuser.UIDPrefix + strconv.FormatUint(uint64(uid), 10)
	return &Caller{
		Actor: identity.Actor{Name: name + "@" + p.hostID, Users: []string{name}, Role: identity.Submitter, Host: p.hostID},
		UID:   uid, account: p.counted(uid),
	}
}

// withoutLookup returns a user as far as they are known without asking a directory of users.
func (p *Peers) withoutLookup(uid uint32) *Caller {
	user, err := p.users.WithoutLookup(uid)
	if err != nil {
		return p.unsure(uid)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.callerLocked(uid, user)
}

// connecting is the account of a connection of a user before it is taken.
func (p *Peers) connecting(uid uint32) admission.Caller {
	if uid == 0 || uid == p.self {
		return admission.Caller{}
	}
	if user := p.users.Known(uid); user != nil && p.isTrusted(uid, user) {
		return admission.Caller{}
	}
	return p.counted(uid)
}

// counted is the account of a user as long as no name is looked up.
func (p *Peers) counted(uid uint32) admission.Caller {
	account := p.users.Account(uid)
	return admission.Caller{ID: "user/" + account, Name: account + "@" + p.hostID}
}

func (p *Peers) callerLocked(uid uint32, u *localuser.User) *Caller {
	trusted := p.isTrustedLocked(uid, u)
	actor := identity.Actor{
		Name: u.Name + "@" + p.hostID, Users: []string{u.Name}, Anyone: trusted, Priority: trusted,
		Role: identity.Submitter, Host: p.hostID,
	}
	if !trusted {
		actor.Owner = u.Owner
	}
	return NewCaller(actor, uid, u.Account())
}

// loopback is the caller over TCP, if that is allowed.
func (p *Peers) loopback() *Caller {
	c := NewCaller(identity.Actor{
		Name: "local@" + p.hostID, Anyone: true, Priority: true, Role: identity.Submitter, Host: p.hostID,
	}, p.self, "")
	c.TCP = true
	c.account = admission.Caller{ID: "loopback", Name: c.Actor.Name}
	return c
}

// dialed is the caller at the other end of a connection over TCP. It may do what all of these may,
// and counts on the user who has opened the connection, if the kernel still knows that.
func (p *Peers) dialed(local *Caller, conn net.Conn) *Caller {
	other, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	own, ownErr := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil || ownErr != nil {
		return local
	}
	uid, err := p.dialer(other, own)
	if err != nil {
		return local
	}
	c, owner := *local, p.users.Account(uid)
	c.account = admission.Caller{ID: "loopback/" + owner, Name: c.Actor.Name + " (user " + owner + ")"}
	return &c
}

// NewCaller returns a caller with the uid, whose use is counted on an account unless they are
// trusted.
func NewCaller(actor identity.Actor, uid uint32, account string) *Caller {
	c := &Caller{Actor: actor, Header: actor.Encode(), UID: uid, Trusted: actor.Anyone}
	if !c.Trusted {
		c.account = admission.Caller{ID: "user/" + account, Name: actor.ChargedName()}
	}
	return c
}

func (p *Peers) isTrusted(uid uint32, u *localuser.User) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isTrustedLocked(uid, u)
}

func (p *Peers) isTrustedLocked(uid uint32, u *localuser.User) bool {
	if uid == 0 || uid == p.self {
		return true
	}
	digits := strconv.FormatUint(uint64(uid), 10)
	return slices.ContainsFunc(p.trusted, func(trusted string) bool {
		return trusted == u.Name || u.OwnDigits && trusted == digits
	})
}

// isListed reports whether the digits of a uid are trusted, whoever has them.
func (p *Peers) isListed(uid uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.trusted, strconv.FormatUint(uint64(uid), 10))
}

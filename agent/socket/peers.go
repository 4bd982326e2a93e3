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
	// Header is the encoded actor for forwarded calls.
	Header string
	UID    uint32
	// Trusted callers may act as anyone, and may confirm other users' processes.
	Trusted bool
	// TCP: the user is unknown, and may be any on this machine.
	TCP bool
	// account is the account of the caller's requests and connections; none for a trusted caller.
	account admission.Caller
}

// GroupOf returns the group of the process at the other end of a call's connection; false if it is
// not known.
func GroupOf(ctx context.Context) (gid uint32, ok bool) {
	peer, ok := ctx.Value(peerKey{}).(*unix.Ucred)
	if !ok {
		return 0, false
	}
	return peer.Gid, true
}

type callerKey struct{}

// CallerOf returns the caller of a context's call; nil if the call has no connection.
func CallerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// WithCaller returns the context of a call that the caller makes.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// Counted returns the account of the caller's calls. A call without a connection is this process's
// own.
func (c *Caller) Counted() admission.Caller {
	if c == nil {
		return admission.Caller{}
	}
	return c.account
}

// Peers finds the callers by the kernel's data about their connections.
type Peers struct {
	hostID string
	self   uint32
	users  *localuser.Users
	// dialer returns the user at the remote end of a TCP connection within this machine.
	dialer func(remote, local netip.AddrPort) (uid uint32, err error)

	mu      sync.Mutex
	trusted []string // guarded by mu; names and uids
	// callers caches the latest callers, by uid. Guarded by mu.
	callers map[uint32]peer
}

// peer is a caller, and the user from which it was made.
type peer struct {
	caller *Caller
	user   *localuser.User
}

// newPeers returns the callers of an agent on a host, which runs as the user self. trusted are
// names and uids.
func newPeers(hostID string, self uint32, trusted []string) *Peers {
	p := &Peers{hostID: hostID, self: self, trusted: trusted, dialer: sockdiag.Owner, callers: make(map[uint32]peer)}
	p.users = localuser.New(localuser.ThisMachine(), localuser.Options{Keep: p.isTrusted, Digits: p.isListed})
	return p
}

// Trust replaces the list of users who may act as anyone, from the next request on.
func (p *Peers) Trust(users []string) {
	p.mu.Lock()
	p.trusted = users
	clear(p.callers)
	p.mu.Unlock()
	p.users.Forget()
}

// Caller returns a user of this machine with its rights: to act as itself, or as anyone if it is
// trusted. Each of them, also root, is only a submitter on this host: a coordinator grants an
// agent's callers no more.
//
// The only error is *localuser.UnsureError. Then the caller has no rights. It only has the account
// of the refused request.
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

// unsure returns the caller of a uid whose charged user is unknown now.
func (p *Peers) unsure(uid uint32) *Caller {
	name := localuser.UIDPrefix + strconv.FormatUint(uint64(uid), 10)
	return &Caller{
		Actor: identity.Actor{Name: name + "@" + p.hostID, Users: []string{name}, Role: identity.Submitter, Host: p.hostID},
		UID:   uid, account: p.counted(uid),
	}
}

// withoutLookup returns a user as far as it is known without a query to a directory of users.
func (p *Peers) withoutLookup(uid uint32) *Caller {
	user, err := p.users.WithoutLookup(uid)
	if err != nil {
		return p.unsure(uid)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.callerLocked(uid, user)
}

// connecting returns the account of a user's connection before it is taken.
func (p *Peers) connecting(uid uint32) admission.Caller {
	if uid == 0 || uid == p.self {
		return admission.Caller{}
	}
	if user := p.users.Known(uid); user != nil && p.isTrusted(uid, user) {
		return admission.Caller{}
	}
	return p.counted(uid)
}

// counted returns the account of a user without a look-up of the name.
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

// loopback returns the caller over TCP, if that is allowed.
func (p *Peers) loopback() *Caller {
	c := NewCaller(identity.Actor{
		Name: "local@" + p.hostID, Anyone: true, Priority: true, Role: identity.Submitter, Host: p.hostID,
	}, p.self, "")
	c.TCP = true
	c.account = admission.Caller{ID: "loopback", Name: c.Actor.Name}
	return c
}

// dialed returns the caller at the other end of a TCP connection. It has the rights of all TCP
// callers, and counts on the user who has opened the connection, if the kernel still knows it.
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

// NewCaller returns a caller with the uid. Its use counts on the account unless it is trusted.
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

// isListed reports whether the digits of a uid are trusted, whatever user has them.
func (p *Peers) isListed(uid uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.trusted, strconv.FormatUint(uint64(uid), 10))
}

package socket

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/bursar/bursar/agent/osuser"
	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/sockdiag"
	"github.com/bursar/bursar/internal/subuid"
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
	lookup func(ctx context.Context, uid uint32) (string, error)
	inFile func(uid uint32) (string, error) // what of it never takes long
	// uidOf is the uid of a name.
	uidOf func(ctx context.Context, name string) (uint32, error)
	// charged is the user who is charged for a uid, if that is another one.
	charged func(uid uint32, hasName bool, names subuid.Names) (user string, other bool)
	// dialer is the user at the remote end of a connection of TCP within this machine.
	dialer func(remote, local netip.AddrPort) (uid uint32, err error)

	mu      sync.Mutex
	trusted []string         // guarded by mu; names and uids
	known   map[uint32]known // guarded by mu
	// lookups are the users that are being looked up; a channel is closed when that is done.
	// Guarded by mu.
	lookups map[uint32]chan struct{}
	// owners are what connections of unknown users count on, as of ownersRead. Guarded by mu.
	owners     map[uint32]admission.Caller
	ownersRead time.Time
	// paces bound how often the ids of an owner are looked up, by owner. Guarded by mu.
	paces map[string]*rate.Limiter
}

// known is a caller as they were last looked up.
type known struct {
	caller *Caller
	user   knownUser
	read   time.Time
}

// knownUser is what the machine knows of a uid.
type knownUser struct {
	// name is that of its account. A uid without an account has its digits for a name. If these are
	// another account's name, or the machine cannot be asked, its name is "uid:" and the digits: a
	// text that no account has for a name.
	name string
	// ownDigits reports whether the digits of the uid are no other account's name.
	ownDigits bool
	// hasAccount says that name is an account's.
	hasAccount bool
	// owner is the user who is charged for the uid; empty: the uid itself.
	owner string
}

const (
	// knownFor is how long that is believed: users are renamed rarely.
	knownFor = time.Minute
	// unsureFor is the same if the machine's name service did not answer.
	unsureFor = 5 * time.Second
	// ownerFor is how long the owner of a uid without a known name is believed.
	ownerFor = time.Second
	// lookupRate and lookupBurst bound how often the name service is asked, in lookups a second: a
	// user of user namespaces has some ten thousand uids, none of which is in a file.
	lookupRate  = 20
	lookupBurst = 200
	// ownerPart is the part of that, 1/ownerPart, which the subordinate ids of one user may take.
	ownerPart = 2
	// maxUsers is how many users are remembered: a user with a range of subordinate uids can be
	// many.
	maxUsers = 1024
	// LookupsAtOnce bounds how many programs may look up users at a time. Each takes a process and
	// a thread of the agent's TasksMax.
	LookupsAtOnce = 16
)

// newPeers returns the callers of an agent on a host, which runs as the user self. Trusted are
// names and uids.
func newPeers(hostID string, self uint32, trusted []string) *Peers {
	users := osuser.Users{Pace: rate.NewLimiter(lookupRate, lookupBurst), Slots: make(chan struct{}, LookupsAtOnce)}
	ranges := subuid.New(subuid.Path, time.Now)
	return &Peers{
		hostID: hostID, self: self, trusted: trusted, lookup: users.NameOf, inFile: users.NameOfFile, uidOf: users.UIDOf, charged: ranges.Charged,
		dialer: sockdiag.Owner,
		known:  make(map[uint32]known), lookups: make(map[uint32]chan struct{}), owners: make(map[uint32]admission.Caller),
		paces: make(map[string]*rate.Limiter),
	}
}

// Trust replaces the list of users who may act as anyone. It counts from the next request on.
func (p *Peers) Trust(users []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trusted = users
	clear(p.known)
}

// Caller returns a user of this machine with what they may do: act as themselves, or if they are
// trusted, as anyone. Each of them, also root, is only a submitter on this host: a coordinator
// grants an agent's callers no more.
func (p *Peers) Caller(ctx context.Context, uid uint32) *Caller {
	for {
		p.mu.Lock()
		before, seen := p.known[uid]
		other := p.lookups[uid]
		switch {
		case seen && (other != nil || time.Since(before.read) < knownFor):
			p.mu.Unlock()
			return before.caller
		case other == nil:
			done := make(chan struct{})
			p.lookups[uid] = done
			p.mu.Unlock()
			return p.lookUp(ctx, uid, before, done)
		}
		p.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done(): // the call has ended
			return p.withoutLookup(uid)
		}
	}
}

// lookUp looks up a user, who was known as before, and closes done.
func (p *Peers) lookUp(ctx context.Context, uid uint32, before known, done chan<- struct{}) *Caller {
	found, sure := p.user(context.WithoutCancel(ctx), uid) // without the lock: it may take seconds
	read := time.Now()
	if !sure {
		read = read.Add(unsureFor - knownFor)
		if before.caller != nil {
			found = before.user
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.callerLocked(uid, found)
	if len(p.known) >= maxUsers {
		// trusted users are few, and must not be forgotten because of others
		maps.DeleteFunc(p.known, func(_ uint32, k known) bool { return !k.caller.Trusted })
	}
	p.known[uid] = known{caller: c, user: found, read: read}
	delete(p.lookups, uid)
	close(done)
	return c
}

// withoutLookup returns a user as far as they are known without asking a directory of users.
func (p *Peers) withoutLookup(uid uint32) *Caller {
	p.mu.Lock()
	before, seen := p.known[uid]
	p.mu.Unlock()
	if seen {
		return before.caller
	}
	found := knownUser{name: uidPrefix + digits(uid)}
	if name, err := p.inFile(uid); err == nil && name != "" {
		found.name, found.hasAccount = name, true
	}
	found.owner, _ = p.charged(uid, found.hasAccount, p.namesOfFile())
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.callerLocked(uid, found)
}

// connecting is what a connection of a user counts on before it is taken. It looks up no name: a
// user with a range of subordinate uids can come as another one each time.
func (p *Peers) connecting(uid uint32) admission.Caller {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, seen := p.known[uid]; seen {
		return before.caller.account
	}
	if uid == 0 || uid == p.self {
		return admission.Caller{}
	}
	if now := time.Now(); len(p.owners) >= maxUsers || now.Sub(p.ownersRead) >= ownerFor {
		clear(p.owners)
		p.ownersRead = now
	}
	counted, seen := p.owners[uid]
	if !seen {
		owner := p.payer(uid)
		counted = admission.Caller{ID: "user/" + owner, Name: owner + "@" + p.hostID}
		p.owners[uid] = counted
	}
	return counted
}

// payer is the user who is charged for a uid, without a look-up of names. It reads a file of this
// machine, which never takes long.
func (p *Peers) payer(uid uint32) string {
	if owner, other := p.charged(uid, false, subuid.Names{}); other {
		return owner
	}
	return digits(uid)
}

func (p *Peers) callerLocked(uid uint32, u knownUser) *Caller {
	trusted := p.isTrustedLocked(uid, u)
	actor := identity.Actor{
		Name: u.name + "@" + p.hostID, Users: []string{u.name}, Anyone: trusted, Priority: trusted,
		Role: identity.Submitter, Host: p.hostID,
	}
	if !trusted {
		actor.Owner = u.owner
	}
	return NewCaller(actor, uid, cmp.Or(u.owner, strings.TrimPrefix(u.name, uidPrefix)))
}

// namesOfFile are the accounts of this machine as far as they are in files.
func (p *Peers) namesOfFile() subuid.Names {
	return subuid.Names{NameOf: func(uid uint32) (string, bool) {
		name, err := p.inFile(uid)
		return name, err == nil && name != ""
	}}
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
	c, owner := *local, p.payer(uid)
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

func (p *Peers) isTrustedLocked(uid uint32, u knownUser) bool {
	if uid == 0 || uid == p.self {
		return true
	}
	return slices.ContainsFunc(p.trusted, func(trusted string) bool {
		return trusted == u.name || u.ownDigits && trusted == digits(uid)
	})
}

// user looks up what the machine knows of a uid. sure is false if the machine could not be asked.
func (p *Peers) user(ctx context.Context, uid uint32) (found knownUser, sure bool) {
	if !p.mayLookUp(uid) {
		found = knownUser{name: uidPrefix + digits(uid)}
		found.owner, _ = p.charged(uid, false, p.namesOfFile())
		return found, false
	}
	name, err := p.lookup(ctx, uid)
	hasName := err == nil && name != ""
	if err != nil && !errors.Is(err, osuser.ErrNoUser) {
		found = knownUser{name: uidPrefix + digits(uid)}
		found.owner, _ = p.charged(uid, false, p.namesOfFile())
		return found, false
	}
	p.mu.Lock()
	listed := slices.Contains(p.trusted, digits(uid))
	p.mu.Unlock()
	if hasName && !listed {
		return knownUser{name: name, hasAccount: true}, true // nothing depends on whose name its digits are
	}
	other, err := p.uidOf(ctx, digits(uid))
	free := errors.Is(err, osuser.ErrNoUser)
	found = knownUser{name: name, hasAccount: hasName, ownDigits: free || err == nil && other == uid}
	switch {
	case hasName:
	case found.ownDigits:
		found.name = digits(uid)
	default:
		found.name = uidPrefix + digits(uid)
	}
	found.owner, _ = p.charged(uid, hasName, subuid.Names{
		NameOf: func(uid uint32) (string, bool) {
			name, err := p.lookup(ctx, uid)
			return name, err == nil && name != ""
		},
		UIDOf: func(name string) (uint32, bool) {
			uid, err := p.uidOf(ctx, name)
			return uid, err == nil
		},
	})
	return found, free || err == nil
}

// mayLookUp reports whether a directory of users may be asked for a uid. All subordinate ids of a
// user share one pace, so that they leave lookups for other users.
func (p *Peers) mayLookUp(uid uint32) bool {
	owner, other := p.charged(uid, false, subuid.Names{})
	if !other {
		return true
	}
	if name, err := p.inFile(uid); err == nil && name != "" {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pace := p.paces[owner]
	if pace == nil {
		if len(p.paces) >= maxUsers {
			clear(p.paces)
		}
		pace = rate.NewLimiter(lookupRate/ownerPart, lookupBurst/ownerPart)
		p.paces[owner] = pace
	}
	return pace.Allow()
}

// uidPrefix begins the name of a uid whose digits may be the name of another account.
const uidPrefix = "uid:"

func digits(uid uint32) string { return strconv.FormatUint(uint64(uid), 10) }

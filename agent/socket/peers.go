package socket

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/subuid"
)

// Caller is who is at the other end of a connection.
type Caller struct {
	Actor identity.Actor
	// Header is the actor as it is passed on.
	Header string
	UID    uint32
	// Trusted callers may act as anyone, and confirm processes of others.
	Trusted bool
	// TCP: it may be anybody on this machine.
	TCP bool
	// account is on whom what they have here is counted; nobody, where they are trusted.
	account admission.Caller
}

type callerKey struct{}

// CallerOf returns who made the call that a context belongs to; nil: nobody did, over a connection.
func CallerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// WithCaller returns the context of a call that the caller makes.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// Counted is on whom something is counted. What came through no connection is this process's own.
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
	// account is on whom a user of that name counts.
	account func(uid uint32, name string) string

	mu      sync.Mutex
	trusted []string                 // guarded by mu; names and uids
	known   map[uint32]known         // guarded by mu
	asking  map[uint32]chan struct{} // guarded by mu; who is being looked up; closed when that is done
}

// known is a caller as they were last looked up.
type known struct {
	caller *Caller
	read   time.Time
}

const (
	// knownFor is how long that is believed: users are renamed rarely.
	knownFor = time.Minute
	// unsureFor is how long, where the machine's name service did not answer.
	unsureFor = 5 * time.Second
	// lookupRate and lookupBurst bound how often that is asked, in looks a second: whoever has user namespaces has some ten thousand uids,
	// none of which is in a file.
	lookupRate  = 20
	lookupBurst = 200
	// maxUsers is how many users are remembered: one with a range of subordinate uids can be many.
	maxUsers = 1024
	// LookupsAtOnce bounds how many programs look users up at a time. Each takes a process and a thread of the agent's TasksMax.
	LookupsAtOnce = 16
)

// newPeers returns the callers of an agent on a host, which runs as the user self. Trusted are names and uids.
func newPeers(hostID string, self uint32, trusted []string) *Peers {
	users := launch.Users{Pace: rate.NewLimiter(lookupRate, lookupBurst), Slots: make(chan struct{}, LookupsAtOnce)}
	return &Peers{
		hostID: hostID, self: self, trusted: trusted, lookup: users.NameOf, inFile: users.NameOfFile, account: subuid.New(subuid.Path, time.Now).Account,
		known: make(map[uint32]known), asking: make(map[uint32]chan struct{}),
	}
}

// Trust replaces the list of those who may act as anyone, for the next request of everybody.
func (p *Peers) Trust(users []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trusted = users
	clear(p.known)
}

// Caller returns who a user of this machine is, and what they may: act as themselves, or where they are trusted as anyone. None of
// them, root neither, is more than a submitter on this host: that is all that a coordinator believes of an agent's callers.
func (p *Peers) Caller(ctx context.Context, uid uint32) *Caller {
	for {
		p.mu.Lock()
		before, seen := p.known[uid]
		other := p.asking[uid]
		switch {
		case seen && (other != nil || time.Since(before.read) < knownFor):
			p.mu.Unlock()
			return before.caller
		case other == nil:
			done := make(chan struct{})
			p.asking[uid] = done
			p.mu.Unlock()
			return p.look(ctx, uid, before.caller, done)
		}
		p.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done(): // nobody waits for what this call will do
			return p.atOnce(uid)
		}
	}
}

// look asks who a user is, whom it knew as before, and closes done.
func (p *Peers) look(ctx context.Context, uid uint32, before *Caller, done chan<- struct{}) *Caller {
	userName, sure := p.name(ctx, uid) // without the lock: it may take seconds
	read := time.Now()
	if !sure {
		read = read.Add(unsureFor - knownFor)
		if before != nil {
			userName = before.Actor.Users[0]
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.callerLocked(uid, userName)
	if len(p.known) >= maxUsers { // those who are trusted are few, and are not to be forgotten because of others
		maps.DeleteFunc(p.known, func(_ uint32, k known) bool { return !k.caller.Trusted })
	}
	p.known[uid] = known{caller: c, read: read}
	delete(p.asking, uid)
	close(done)
	return c
}

// atOnce is what can be said of a user without asking a directory of users.
func (p *Peers) atOnce(uid uint32) *Caller {
	p.mu.Lock()
	before, seen := p.known[uid]
	p.mu.Unlock()
	if seen {
		return before.caller
	}
	userName, err := p.inFile(uid)
	if err != nil {
		userName = strconv.FormatUint(uint64(uid), 10)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.callerLocked(uid, userName)
}

func (p *Peers) callerLocked(uid uint32, userName string) *Caller {
	trusted := p.isTrustedLocked(uid, userName)
	return NewCaller(identity.Actor{
		Name: userName + "@" + p.hostID, Users: []string{userName}, Anyone: trusted, Priority: trusted,
		Role: identity.Submitter, Host: p.hostID,
	}, uid, p.account(uid, userName))
}

// loopback is whoever calls over TCP, where that is allowed.
func (p *Peers) loopback() *Caller {
	c := NewCaller(identity.Actor{
		Name: "local@" + p.hostID, Anyone: true, Priority: true, Role: identity.Submitter, Host: p.hostID,
	}, p.self, "")
	c.TCP = true
	c.account = admission.Caller{ID: "loopback", Name: c.Actor.Name}
	return c
}

// NewCaller returns a caller with the uid, whose use is counted on an account unless they are trusted.
func NewCaller(actor identity.Actor, uid uint32, account string) *Caller {
	c := &Caller{Actor: actor, Header: actor.Encode(), UID: uid, Trusted: actor.Anyone}
	if !c.Trusted {
		c.account = admission.Caller{ID: "user/" + account, Name: actor.Name}
	}
	return c
}

func (p *Peers) isTrustedLocked(uid uint32, userName string) bool {
	if uid == 0 || uid == p.self {
		return true
	}
	for _, trusted := range p.trusted {
		// A number is a uid, even where a user has it for a name.
		if number, err := strconv.ParseUint(trusted, 10, 32); err == nil {
			if number == uint64(uid) {
				return true
			}
		} else if trusted == userName {
			return true
		}
	}
	return false
}

// name is a user's name, or where the machine knows none its number. It is not sure where the machine could not be asked.
func (p *Peers) name(ctx context.Context, uid uint32) (text string, sure bool) {
	text, err := p.lookup(context.WithoutCancel(ctx), uid) // for all that want to know, not for one call
	if err != nil || text == "" {
		return strconv.FormatUint(uint64(uid), 10), err == nil || errors.Is(err, launch.ErrNoUser)
	}
	return text, true
}

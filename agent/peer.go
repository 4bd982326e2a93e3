package agent

import (
	"context"
	"fmt"
	"net"
	"os/user"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/identity"
)

// caller is who is at the other end of a connection.
type caller struct {
	actor identity.Actor
	// header is the actor as it is passed on.
	header string
	uid    uint32
	// trusted callers may act as anyone, and confirm processes of others.
	trusted bool
}

type callerKey struct{}

// callerOf returns who made the call that a context belongs to.
func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}

// peers knows the callers by what the kernel says of their connections.
type peers struct {
	hostID  string
	self    uint32
	trusted []string // names and uids
	lookup  func(uid string) (*user.User, error)

	mu    sync.Mutex
	names map[uint32]name // guarded by mu
}

// name is a user's name, or where the machine knows none its number.
type name struct {
	text string
	read time.Time
}

// nameFor is how long a name is believed: users are renamed rarely.
const nameFor = time.Minute

func newPeers(hostID string, self uint32, trusted []string) *peers {
	return &peers{hostID: hostID, self: self, trusted: trusted, lookup: user.LookupId, names: make(map[uint32]name)}
}

// credentials asks the kernel who connected to a Unix socket: the process at the time of the connect, as of which the
// kernel remembers the effective user id.
func credentials(conn *net.UnixConn) (uid uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("peer credentials: %w", err)
	}
	var credentials *unix.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) {
		credentials, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, fmt.Errorf("peer credentials: %w", err)
	}
	if peerErr != nil {
		return 0, fmt.Errorf("peer credentials: %w", peerErr)
	}
	return credentials.Uid, nil
}

// caller returns who a user of this machine is, and what they may: act as themselves, or where they are trusted as anyone. None of
// them, root neither, is more than a submitter on this host: that is all that a coordinator believes of an agent's callers.
func (p *peers) caller(uid uint32) *caller {
	userName := p.name(uid)
	trusted := p.isTrusted(uid, userName)
	return newCaller(identity.Actor{
		Name: userName + "@" + p.hostID, Users: []string{userName}, Anyone: trusted, Priority: trusted,
		Role: identity.Submitter, Host: p.hostID,
	}, uid)
}

// loopback is whoever calls over TCP, where that is allowed.
func (p *peers) loopback() *caller {
	return newCaller(identity.Actor{
		Name: "local@" + p.hostID, Anyone: true, Priority: true, Role: identity.Submitter, Host: p.hostID,
	}, p.self)
}

func newCaller(actor identity.Actor, uid uint32) *caller {
	return &caller{actor: actor, header: actor.Encode(), uid: uid, trusted: actor.Anyone}
}

func (p *peers) isTrusted(uid uint32, userName string) bool {
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

func (p *peers) name(uid uint32) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if known, ok := p.names[uid]; ok && now.Sub(known.read) < nameFor {
		return known.text
	}
	text := strconv.FormatUint(uint64(uid), 10)
	if u, err := p.lookup(text); err == nil && u.Username != "" {
		text = u.Username
	}
	p.names[uid] = name{text: text, read: now}
	return text
}

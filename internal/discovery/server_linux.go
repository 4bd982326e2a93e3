package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bursar/bursar/internal/peercred"
	"github.com/bursar/bursar/internal/sockdiag"
)

// ServerUsers is an environment variable with users, by name or number and separated by commas.
// Their programs may answer on this machine's loopback without TLS and on Unix sockets of agents,
// in addition to those of root, of the system's service users, and of the caller's own user.
// Default: none.
const ServerUsers = "BURSAR_SERVER_USERS"

// ForeignServerError refuses to talk to a program of this machine without TLS, because any user
// may have put it in the place of one of our servers.
type ForeignServerError struct {
	Address string // that was dialed
	User    string // the program's user
	Socket  bool   // it is a Unix socket's path
}

func (e *ForeignServerError) Error() string {
	secure := "https:// and TLS there, "
	if e.Socket {
		secure = ""
	}
	return fmt.Sprintf("%s belongs to a program of user %s: want one of root, of a service's user or of your own, %sor %s=%s%s",
		e.Address, e.User, secure, ServerUsers, e.User, serverUsers().hint())
}

// acceptTime is how long a server of this machine has to accept a connection: until then the
// kernel does not tell its user.
const acceptTime = 5 * time.Second

// DialKnown dials with another dialer. On the loopback it connects only to programs of users that
// may answer there: any user can listen on the port of a server that is down for a moment, or on
// its port of ::1. For localhost it goes on to the other of the two addresses. The error is a
// *ForeignServerError, or says why the user cannot be told. It is for connections without TLS.
func DialKnown(dial Dial) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialChecked(ctx, dial, network, address)
		foreign, is := errors.AsType[*ForeignServerError](err)
		host, port, _ := net.SplitHostPort(address)
		if !is || host != "localhost" {
			return conn, err
		}
		other := "::1"
		if strings.HasPrefix(foreign.Address, "[") {
			other = "127.0.0.1"
		}
		if conn, otherErr := dialChecked(ctx, dial, network, net.JoinHostPort(other, port)); otherErr == nil {
			return conn, nil
		}
		return nil, err
	}
}

func dialChecked(ctx context.Context, dial Dial, network, address string) (net.Conn, error) {
	conn, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if err := checkServer(ctx, conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func checkServer(ctx context.Context, conn net.Conn) error {
	server, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil || !server.Addr().Unmap().IsLoopback() {
		return nil //nolint:nilerr // a Unix socket, say
	}
	own, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return fmt.Errorf("own address: %w", err)
	}
	uid, err := acceptedBy(ctx, conn, own, server)
	if err != nil {
		return fmt.Errorf("%s: whose program this is cannot be told: %w", server, err)
	}
	if !mayServe(uid) {
		return &ForeignServerError{Address: server.String(), User: sockdiag.UserName(uid)}
	}
	return nil
}

// checkSocket refuses the program that listens on a Unix socket if its user may not answer there.
func checkSocket(conn net.Conn, path string) error {
	unixConn, is := conn.(*net.UnixConn)
	if !is {
		return nil
	}
	peer, err := peercred.Of(unixConn)
	if err != nil {
		return fmt.Errorf("%s: whose program this is cannot be told: %w", path, err)
	}
	if !mayServe(peer.Uid) && !unmapped(peer.Uid) {
		return &ForeignServerError{Address: path, User: sockdiag.UserName(peer.Uid), Socket: true}
	}
	return nil
}

// overflowUser is the number of all users that a user namespace does not map
// (/proc/sys/kernel/overflowuid, which nobody changes).
const overflowUser = 65534

// unmapped reports whether a user's number says nothing: this process is in a user namespace, a
// rootless container say, which does not know the user. The maker of the container chose the
// socket in it.
func unmapped(uid uint32) bool {
	if uid != overflowUser {
		return false
	}
	users, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !slices.Equal(strings.Fields(string(users)), []string{"0", "0", "4294967295"})
}

// acceptedBy waits until a program has taken the connection in, and returns its user.
func acceptedBy(ctx context.Context, conn net.Conn, own, server netip.AddrPort) (uid uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTime)
	defer cancel()
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 50*time.Millisecond) {
		uid, err = sockdiag.Owner(server, own)
		// the socket that is found then may be another's
		if open := sockdiag.StillOpen(conn); open != nil {
			return 0, open
		}
		if !errors.Is(err, sockdiag.ErrNone) {
			return uid, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return 0, fmt.Errorf("%w after %s: it does not accept connections", err, acceptTime)
		}
	}
}

// mayServe reports whether a user's programs may answer. Below 1000 are those that systems make
// for services, from 61184 on those that systemd makes for a unit with DynamicUser=.
func mayServe(uid uint32) bool {
	return uid < 1000 || uid >= 61184 && uid <= 65519 || int(uid) == os.Geteuid() || slices.Contains(serverUsers().uids, uid)
}

// serverUsers are the users of ServerUsers.
var serverUsers = sync.OnceValue(func() namedUsers { //nolint:gochecknoglobals // an environment is one
	return usersNamed(os.Getenv(ServerUsers))
})

// namedUsers are what a list of users comes to.
type namedUsers struct {
	text  string
	uids  []uint32
	wrong []string // what of it does not count, and why
}

func usersNamed(text string) namedUsers {
	named := namedUsers{text: text}
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		number := name
		u, err := user.Lookup(name)
		if err == nil {
			number = u.Uid
		}
		uid, numberErr := strconv.ParseUint(number, 10, 32)
		_, unknown := errors.AsType[user.UnknownUserError](err)
		switch {
		case numberErr == nil:
			named.uids = append(named.uids, uint32(uid))
		case err == nil || unknown:
			named.wrong = append(named.wrong, strconv.Quote(name)+": no such user")
		default:
			named.wrong = append(named.wrong, strconv.Quote(name)+": "+err.Error())
		}
	}
	return named
}

// hint tells a refused caller what is set; empty: nothing is.
func (n namedUsers) hint() string {
	if n.text == "" {
		return ""
	}
	text := fmt.Sprintf(" (it is %q now", n.text)
	if len(n.wrong) > 0 {
		text += ", of which does not count: " + strings.Join(n.wrong, ", ")
	}
	return text + ")"
}

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
// in addition to programs of root, of the system's service users, and of the caller's own user.
// Default: none.
const ServerUsers = "BURSAR_SERVER_USERS"

// ForeignServerError rejects a program on this machine that answers without TLS, because any user
// may have started it in place of one of our servers.
type ForeignServerError struct {
	Address string // the dialed address
	User    string // the program's user
	Socket  bool   // the address is the path of a Unix socket
}

func (e *ForeignServerError) Error() string {
	secure := "https:// and TLS there, "
	if e.Socket {
		secure = ""
	}
	return fmt.Sprintf("%s belongs to a program of user %s: want one of root, of a service's user or of your own, %sor %s=%s%s",
		e.Address, e.User, secure, ServerUsers, e.User, serverUsers().hint())
}

// acceptTime is how long a server on this machine may take to accept a connection. Before that the
// kernel does not reveal its user.
const acceptTime = 5 * time.Second

// DialKnown dials with another dialer. On the loopback it connects only to programs of accepted
// users: any user can listen on the port of a server that is down for a moment, or on its port of
// ::1. For localhost it also tries the other one of the two addresses. The error is a
// *ForeignServerError, or reports that the user cannot be determined. It is for connections without
// TLS.
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

// checkSocket rejects the program that listens on a Unix socket if its user is not accepted.
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

// unmapped reports whether a user's number is meaningless: this process is in a user namespace,
// such as a rootless container, that does not map the user. The creator of the container chose the
// socket in it.
func unmapped(uid uint32) bool {
	if uid != overflowUser {
		return false
	}
	users, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !slices.Equal(strings.Fields(string(users)), []string{"0", "0", "4294967295"})
}

// acceptedBy waits until a program has accepted the connection, and returns its user.
func acceptedBy(ctx context.Context, conn net.Conn, own, server netip.AddrPort) (uid uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTime)
	defer cancel()
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 50*time.Millisecond) {
		uid, err = sockdiag.Owner(server, own)
		// if the connection is closed, the socket found may be another's
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

// mayServe reports whether a user's programs may answer. Numbers below 1000 are the system's
// service users; from 61184 on systemd allocates them for units with DynamicUser=.
func mayServe(uid uint32) bool {
	return uid < 1000 || uid >= 61184 && uid <= 65519 || int(uid) == os.Geteuid() || slices.Contains(serverUsers().uids, uid)
}

// serverUsers returns the users in the variable ServerUsers.
var serverUsers = sync.OnceValue(func() namedUsers { //nolint:gochecknoglobals // an environment is one
	return usersNamed(os.Getenv(ServerUsers))
})

// namedUsers is a parsed list of users.
type namedUsers struct {
	text  string
	uids  []uint32
	wrong []string // ignored entries, with the reasons
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

// hint tells a rejected caller the present setting; empty if there is none.
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

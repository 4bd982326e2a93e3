package coordinator

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/identity"
)

// neighbour is who has the other end of a connection within this machine: the kernel tells whose socket it is. It is looked up once, when
// the first request wants to know.
type neighbour struct {
	once  sync.Once
	actor identity.Actor
	err   error
}

type neighbourKey struct{}

// withNeighbour has every connection remember its other end.
func withNeighbour(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, neighbourKey{}, &neighbour{})
}

// neighbours knows them.
type neighbours struct {
	self  uint32
	table func(own, other netip.AddrPort) (uid uint32, err error)
	name  func(uid uint32) string
}

func thisMachine() neighbours {
	return neighbours{self: uint32(os.Geteuid()), table: socketOwner, name: userName} //nolint:gosec // a uid
}

// of returns who makes a request over loopback: root, and the user that this coordinator runs as, may do everything; any other user is a
// submitter for themselves, as on an agent's socket.
func (n neighbours) of(r *http.Request) (identity.Actor, error) {
	known, _ := r.Context().Value(neighbourKey{}).(*neighbour)
	if known == nil {
		known = &neighbour{}
	}
	known.once.Do(func() { known.actor, known.err = n.look(r) })
	return known.actor, known.err
}

func (n neighbours) look(r *http.Request) (identity.Actor, error) {
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
	uid, err := n.table(here, other)
	if err != nil {
		return identity.Actor{}, connect.NewError(connect.CodeUnauthenticated,
			fmt.Errorf("whose connection this is cannot be told (%w): want one of a process of this machine, or identities in the coordinator's configuration", err))
	}
	if uid == 0 || uid == n.self {
		return identity.Local(), nil
	}
	name := n.name(uid)
	return identity.Actor{Name: "local:" + name, Users: []string{name}, Role: identity.Submitter}, nil
}

// socketOwner asks the kernel for the user of the socket at the other end of a connection, by its tables of proc(5). A socket of IPv6 may
// speak IPv4.
func socketOwner(own, other netip.AddrPort) (uint32, error) {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table) //nolint:gosec // one of the two above
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, fmt.Errorf("table of sockets: %w", err)
		}
		for line := range bytes.Lines(text) {
			if uid, ok := ownerOf(strings.Fields(string(line)), own, other); ok {
				return uid, nil
			}
		}
	}
	return 0, fmt.Errorf("%s has no socket here", other)
}

// ownerOf reads a row: its number, the local and the remote address, the state, two pairs and a count, the user, a timeout and the inode. A socket
// that its process has let go of has no inode, and 0 for a user.
func ownerOf(row []string, own, other netip.AddrPort) (uid uint32, ok bool) {
	const established = "01"
	if len(row) < 10 || row[3] != established || row[9] == "0" || !isAt(row[1], other) || !isAt(row[2], own) {
		return 0, false
	}
	number, err := strconv.ParseUint(row[7], 10, 32)
	return uint32(number), err == nil
}

// isAt compares an address as the kernel prints it: each four bytes as a number in hexadecimal, in this machine's order, and the port.
func isAt(printed string, at netip.AddrPort) bool {
	address, port, _ := strings.Cut(printed, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil || number != uint64(at.Port()) {
		return false
	}
	data, err := hex.DecodeString(address)
	if err != nil || len(data)%4 != 0 {
		return false
	}
	for i := 0; i < len(data); i += 4 {
		binary.NativeEndian.PutUint32(data[i:], binary.BigEndian.Uint32(data[i:]))
	}
	parsed, ok := netip.AddrFromSlice(data)
	return ok && parsed.Unmap() == at.Addr().Unmap()
}

// userName is a user's name, or the number of one that has none.
func userName(uid uint32) string {
	number := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(number); err == nil && u.Username != "" {
		return u.Username
	}
	return number
}

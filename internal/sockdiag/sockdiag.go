// Package sockdiag asks the kernel for the owner of a TCP socket of this machine, or for the file
// of a Unix socket. It makes one exact lookup over netlink (sock_diag(7)). A lookup takes a few
// microseconds for any number of connections, while the tables of /proc/net must be read from end
// to end. It covers only the network namespace of its own process. It is safe for concurrent use.
package sockdiag

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// ErrNone says that no process has an established connection with these two ends.
var ErrNone = errors.New("no process of this machine has it")

// DeniedError says that this process may not ask the kernel.
type DeniedError struct {
	Err error
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("netlink (sock_diag): %v: want AF_NETLINK allowed (RestrictAddressFamilies= of systemd, seccomp) and the module tcp_diag", e.Err)
}

func (e *DeniedError) Unwrap() error { return e.Err }

// Constants of <linux/sock_diag.h> and <linux/inet_diag.h> that package unix lacks.
const (
	byFamily    = 20 // SOCK_DIAG_BY_FAMILY
	established = 1  // TCP_ESTABLISHED
	noCookie    = ^uint32(0)
)

// socketID is a struct inet_diag_sockid.
type socketID struct {
	SourcePort, DestinationPort [2]byte // big endian
	Source, Destination         [16]byte
	Interface                   uint32
	Cookie                      [2]uint32
}

// request is a struct inet_diag_req_v2 behind its header.
type request struct {
	Header   unix.NlMsghdr
	Family   uint8
	Protocol uint8
	Extras   uint8
	_        uint8
	States   uint32
	ID       socketID
}

// answer is a struct inet_diag_msg.
type answer struct {
	Family, State, Timer, Retransmits uint8
	ID                                socketID
	Expires, Received, Sent           uint32
	UID                               uint32
	Inode                             uint32
}

// Socket holds the kernel's data about a socket.
type Socket struct {
	UID   uint32
	Inode uint32
}

// Owner returns the user of a socket; see Find.
func Owner(local, remote netip.AddrPort) (uid uint32, err error) {
	found, err := Find(local, remote)
	return found.UID, err
}

// Find returns the socket with the own end local and the other end remote. To find the peer's
// socket of a connection from this machine, pass the peer's address as local and one's own address
// as remote. Errors: ErrNone, *DeniedError.
func Find(local, remote netip.AddrPort) (Socket, error) {
	asked := request{
		Header:   unix.NlMsghdr{Len: uint32(binary.Size(request{})), Type: byFamily, Flags: unix.NLM_F_REQUEST}, //nolint:gosec // some 70 bytes
		Family:   unix.AF_INET6,
		Protocol: unix.IPPROTO_TCP,
		States:   1 << established,
		ID:       socketID{Cookie: [2]uint32{noCookie, noCookie}},
	}
	// The kernel lists IPv6 sockets that speak IPv4 among the IPv4 sockets.
	source, destination := local.Addr().Unmap(), remote.Addr().Unmap()
	if source.Is4() != destination.Is4() {
		return Socket{}, fmt.Errorf("%s and %s: want two addresses of one family", local, remote)
	}
	if source.Is4() {
		asked.Family = unix.AF_INET
	}
	copy(asked.ID.Source[:], source.AsSlice())
	copy(asked.ID.Destination[:], destination.AsSlice())
	binary.BigEndian.PutUint16(asked.ID.SourcePort[:], local.Port())
	binary.BigEndian.PutUint16(asked.ID.DestinationPort[:], remote.Port())
	var message bytes.Buffer
	if err := binary.Write(&message, binary.NativeEndian, &asked); err != nil {
		return Socket{}, fmt.Errorf("sock_diag: %w", err)
	}
	payload, err := exchange(message.Bytes())
	if err != nil {
		return Socket{}, err
	}
	var found answer
	if err := decode(payload, &found); err != nil {
		return Socket{}, err
	}
	// If there is no such connection, the kernel returns the listener of the port, or the remains
	// of the connection. A socket that its process has closed has no inode, and the user 0.
	at := found.end(found.ID.Source, found.ID.SourcePort)
	if found.State != established || found.Inode == 0 || at != netip.AddrPortFrom(source, local.Port()) ||
		found.end(found.ID.Destination, found.ID.DestinationPort) != netip.AddrPortFrom(destination, remote.Port()) {
		return Socket{}, ErrNone
	}
	return Socket{found.UID, found.Inode}, nil
}

func (a *answer) end(address [16]byte, port [2]byte) netip.AddrPort {
	ip := netip.AddrFrom16(address)
	if a.Family == unix.AF_INET {
		ip = netip.AddrFrom4([4]byte(address[:4]))
	}
	return netip.AddrPortFrom(ip.Unmap(), binary.BigEndian.Uint16(port[:]))
}

// exchange sends a request and returns the answer without its header. The kernel queues the answer
// before the send returns.
func exchange(message []byte) (*bytes.Reader, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, &DeniedError{err}
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, &DeniedError{err}
	}
	buffer := make([]byte, 1024)
	n, _, err := unix.Recvfrom(fd, buffer, unix.MSG_DONTWAIT)
	if err != nil {
		return nil, &DeniedError{err}
	}
	reader := bytes.NewReader(buffer[:n])
	var header unix.NlMsghdr
	if err := decode(reader, &header); err != nil {
		return nil, err
	}
	switch header.Type {
	case unix.NLMSG_ERROR:
		var code int32
		if err := decode(reader, &code); err != nil {
			return nil, err
		}
		if errno := unix.Errno(-code); errno != unix.ENOENT { //nolint:gosec // the kernel has it negative
			return nil, &DeniedError{errno}
		}
		return nil, ErrNone
	case byFamily:
		return reader, nil
	default:
		return nil, fmt.Errorf("sock_diag: an answer of type %d", header.Type)
	}
}

// decode reads the next part of an answer.
func decode(reader *bytes.Reader, part any) error {
	size := reader.Size()
	if err := binary.Read(reader, binary.NativeEndian, part); err != nil {
		return fmt.Errorf("sock_diag: an answer of %d bytes: %w", size, err)
	}
	return nil
}

// Package sockdiag asks the kernel for the owner of a TCP socket of this machine, or for the file
// of a Unix socket, by one exact look-up over netlink (sock_diag(7)). A look-up takes the same few
// microseconds however many connections there are; the tables of /proc/net have to be read from end
// to end. It knows the network namespace of its own process. Any goroutine may call it.
package sockdiag

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// ErrNone says that there is no established connection with these two ends that its process still
// has.
var ErrNone = errors.New("no process of this machine has it")

// DeniedError says that this process may not ask the kernel.
type DeniedError struct {
	Err error
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("netlink (sock_diag): %v: want AF_NETLINK allowed (RestrictAddressFamilies= of systemd, seccomp) and the module tcp_diag", e.Err)
}

func (e *DeniedError) Unwrap() error { return e.Err }

// What <linux/sock_diag.h> and <linux/inet_diag.h> define, and package unix does not.
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

// Socket is what the kernel tells of a socket.
type Socket struct {
	UID   uint32
	Inode uint32
}

// Owner returns the user of a socket; see Find.
func Owner(local, remote netip.AddrPort) (uid uint32, err error) {
	found, err := Find(local, remote)
	return found.UID, err
}

// Find returns the socket whose own end is local and whose other end is remote. If the connection
// comes from this machine, that is the peer's socket for local = the peer's address and remote =
// one's own. Errors: ErrNone, *DeniedError.
func Find(local, remote netip.AddrPort) (Socket, error) {
	asked := request{
		Header:   unix.NlMsghdr{Len: uint32(binary.Size(request{})), Type: byFamily, Flags: unix.NLM_F_REQUEST}, //nolint:gosec // some 70 bytes
		Family:   unix.AF_INET6,
		Protocol: unix.IPPROTO_TCP,
		States:   1 << established,
		ID:       socketID{Cookie: [2]uint32{noCookie, noCookie}},
	}
	// The kernel has sockets of IPv6 that speak IPv4 among those of IPv4.
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
	// If there is no such connection, the kernel finds the listener of the port, or what is left
	// of the connection. A socket that its process has closed has no inode, and 0 for a user.
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

// exchange sends a request and returns the answer without its header. The kernel has queued it when
// the request was taken.
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

//go:build linux

package netlab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// wireName is what a node calls its end of the wire.
const wireName = "wire"

// message is a request of rtnetlink(7): a header of the kind, then attributes.
type message struct {
	kind  uint16
	flags uint16
	body  []byte
}

// native are the bytes of numbers in this machine's order, as the kernel wants them.
func native32(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// link begins a message about a network device: struct ifinfomsg.
func link(kind, flags uint16, index int, up, change uint32) *message {
	body := make([]byte, 8, 64)
	binary.NativeEndian.PutUint32(body[4:], uint32(index)) //nolint:gosec // small
	body = append(append(body, native32(up)...), native32(change)...)
	return &message{kind: kind, flags: flags, body: body}
}

// pad makes the length a multiple of four.
func pad(b []byte) []byte {
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// attribute appends one: its length, its type, its value.
func attribute(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(value))) //nolint:gosec // small
	b = binary.NativeEndian.AppendUint16(b, kind)
	return pad(append(b, value...))
}

func (m *message) with(kind uint16, value []byte) *message {
	m.body = attribute(m.body, kind, value)
	return m
}

func text(s string) []byte { return append([]byte(s), 0) }

// send sends the message to the kernel, in the namespace of the calling thread, and returns the
// kernel's error.
func (m *message) send() error {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer unix.Close(socket)
	packet := native32(uint32(unix.NLMSG_HDRLEN + len(m.body))) //nolint:gosec // small
	packet = binary.NativeEndian.AppendUint16(packet, m.kind)
	packet = binary.NativeEndian.AppendUint16(packet, m.flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	packet = append(packet, make([]byte, 8)...) // a sequence number and a port that nobody reads
	packet = append(packet, m.body...)
	if err := unix.Sendto(socket, packet, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(socket, answer, 0)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	if n < unix.NLMSG_HDRLEN+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return errors.New("netlink: an answer that is none")
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.NLMSG_HDRLEN:])); code != 0 { //nolint:gosec // it is a negative errno
		return unix.Errno(-code) //nolint:gosec // see above
	}
	return nil
}

const create = unix.NLM_F_CREATE | unix.NLM_F_EXCL

func addBridge(name string, mac net.HardwareAddr) error {
	return link(unix.RTM_NEWLINK, create, 0, 0, 0).
		with(unix.IFLA_IFNAME, text(name)).
		with(unix.IFLA_ADDRESS, mac).
		with(unix.IFLA_LINKINFO, attribute(nil, unix.IFLA_INFO_KIND, []byte("bridge"))).
		send()
}

// addWire makes a pair of devices: port is plugged into the bridge, the other end is in the
// namespace.
func addWire(port, bridge string, namespace *os.File, mac net.HardwareAddr) error {
	master, err := net.InterfaceByName(bridge)
	if err != nil {
		return err
	}
	const vethInfoPeer = 1 // of linux/veth.h
	peer := link(0, 0, 0, 0, 0).
		with(unix.IFLA_IFNAME, text(wireName)).
		with(unix.IFLA_ADDRESS, mac).
		with(unix.IFLA_NET_NS_FD, native32(uint32(namespace.Fd()))) //nolint:gosec // small
	info := attribute(nil, unix.IFLA_INFO_KIND, []byte("veth"))
	info = attribute(info, unix.IFLA_INFO_DATA, attribute(nil, vethInfoPeer, peer.body))
	return link(unix.RTM_NEWLINK, create, 0, 0, 0).
		with(unix.IFLA_IFNAME, text(port)).
		with(unix.IFLA_MASTER, native32(uint32(master.Index))). //nolint:gosec // small
		with(unix.IFLA_LINKINFO, info).
		send()
}

func setUp(name string) error   { return setFlags(name, unix.IFF_UP) }
func setDown(name string) error { return setFlags(name, 0) }

func setFlags(name string, up uint32) error {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	if err := link(unix.RTM_NEWLINK, 0, device.Index, up, unix.IFF_UP).send(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func deleteLink(name string) error {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	return link(unix.RTM_DELLINK, 0, device.Index, 0, 0).send()
}

// addAddress gives a device an address in a network of 256.
func addAddress(name string, address netip.Addr) error {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	body := append([]byte{unix.AF_INET, 24, 0, 0}, native32(uint32(device.Index))...) //nolint:gosec // small; struct ifaddrmsg
	m := &message{kind: unix.RTM_NEWADDR, flags: create, body: body}
	if err := m.with(unix.IFA_LOCAL, address.AsSlice()).with(unix.IFA_ADDRESS, address.AsSlice()).send(); err != nil {
		return fmt.Errorf("%s on %s: %w", address, name, err)
	}
	return nil
}

// setNeighbor sets the hardware address of an address of the network, for ever.
func setNeighbor(device string, address netip.Addr, mac net.HardwareAddr) error {
	found, err := net.InterfaceByName(device)
	if err != nil {
		return err
	}
	body := append([]byte{unix.AF_INET, 0, 0, 0}, native32(uint32(found.Index))...) //nolint:gosec // small; struct ndmsg
	body = binary.NativeEndian.AppendUint16(body, unix.NUD_PERMANENT)
	body = append(body, 0, 0)
	m := &message{kind: unix.RTM_NEWNEIGH, flags: unix.NLM_F_CREATE | unix.NLM_F_REPLACE, body: body}
	return m.with(unix.NDA_DST, address.AsSlice()).with(unix.NDA_LLADDR, mac).send()
}

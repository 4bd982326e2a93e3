package sockdiag

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Constants of <linux/unix_diag.h> that package unix lacks.
const (
	showFile = 1 << 1 // UDIAG_SHOW_VFS
	fileAttr = 1      // UNIX_DIAG_VFS
	anyState = ^uint32(0)
)

// unixRequest is a struct unix_diag_req behind its header.
type unixRequest struct {
	Header   unix.NlMsghdr
	Family   uint8
	Protocol uint8
	_        uint16
	States   uint32
	Inode    uint32
	Show     uint32
	Cookie   [2]uint32
}

// unixAnswer is a struct unix_diag_msg with its first attribute, a struct unix_diag_vfs.
type unixAnswer struct {
	Family, Type, State, _ uint8
	Inode                  uint32
	Cookie                 [2]uint32
	Attribute              unix.NlAttr
	FileInode, FileDevice  uint32
}

// File returns the inode number of the file to which a Unix socket is bound. The kernel gives only
// its low 32 bits. File makes no connection. Errors: ErrNone (the socket has no file),
// *DeniedError.
func File(listener *net.UnixListener) (inode uint32, err error) {
	own, err := socketInode(listener)
	if err != nil {
		return 0, err
	}
	asked := unixRequest{
		Header: unix.NlMsghdr{Len: uint32(binary.Size(unixRequest{})), Type: byFamily, Flags: unix.NLM_F_REQUEST}, //nolint:gosec // some 40 bytes
		Family: unix.AF_UNIX, States: anyState, Inode: own, Show: showFile, Cookie: [2]uint32{noCookie, noCookie},
	}
	var message bytes.Buffer
	if err := binary.Write(&message, binary.NativeEndian, &asked); err != nil {
		return 0, fmt.Errorf("sock_diag: %w", err)
	}
	payload, err := exchange(message.Bytes())
	if err != nil {
		return 0, err
	}
	var found unixAnswer
	if err := decode(payload, &found); err != nil || found.Inode != own || found.Attribute.Type != fileAttr {
		return 0, ErrNone // without a file, the answer is shorter or has another attribute
	}
	return found.FileInode, nil
}

func socketInode(listener *net.UnixListener) (uint32, error) {
	raw, err := listener.SyscallConn()
	if err != nil {
		return 0, err //nolint:wrapcheck // names the socket
	}
	var stat unix.Stat_t
	failed := raw.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &stat) })
	if failed != nil || err != nil {
		return 0, fmt.Errorf("a socket's inode: %w", errors.Join(failed, err))
	}
	return uint32(stat.Ino), nil //nolint:gosec // the kernel compares as many bits
}

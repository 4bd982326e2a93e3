package serve

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/cli/failure"
)

// agentSocketName is the name that a service manager gives the agent's socket if it passes on more
// than one (FileDescriptorName=).
const agentSocketName = "agent.sock"

// passedSocket returns the socket that a service manager has opened for the agent, by the protocol
// of sd_listen_fds(3); nil if it has opened none.
func passedSocket() (net.Listener, error) {
	files := activation.Files(true)
	defer func() {
		for _, file := range files {
			_ = file.Close() // what is served is a copy
		}
	}()
	switch len(files) {
	case 0:
		return nil, nil //nolint:nilnil // there is none
	case 1:
		return unixListener(files[0])
	}
	for _, file := range files {
		if file.Name() == agentSocketName {
			return unixListener(file)
		}
	}
	return nil, failure.Config(fmt.Errorf("the service manager passes on %d sockets: want one, or one with FileDescriptorName=%s", len(files), agentSocketName))
}

// unixListener makes a listener of a descriptor, which must be one of a Unix stream socket.
func unixListener(file *os.File) (net.Listener, error) {
	const want = "want a Unix stream socket that listens (ListenStream=/run/bursar/agent.sock, Accept=no)"
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("the socket that the service manager passes on: %w", err)
	}
	is := true
	if err := raw.Control(func(fd uintptr) {
		for option, value := range map[int]int{unix.SO_DOMAIN: unix.AF_UNIX, unix.SO_TYPE: unix.SOCK_STREAM, unix.SO_ACCEPTCONN: 1} {
			got, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, option)
			is = is && err == nil && got == value
		}
	}); err != nil {
		return nil, fmt.Errorf("the socket that the service manager passes on: %w", err)
	}
	if !is {
		return nil, failure.Config(errors.New(file.Name() + ", which the service manager passes on: " + want))
	}
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("the socket that the service manager passes on: %w", err)
	}
	if made, ok := listener.(*net.UnixListener); ok {
		return made, nil
	}
	return nil, errors.Join(failure.Config(errors.New(file.Name()+": "+want)), listener.Close())
}

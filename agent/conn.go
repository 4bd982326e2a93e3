package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/regularfile"
)

// SocketInUseError says that somebody serves on the path of the agent's socket.
type SocketInUseError struct {
	Path string
}

func (e *SocketInUseError) Error() string {
	return fmt.Sprintf("socket %s: another agent serves it: stop that one, or give this one a socket of its own", e.Path)
}

// listenUnix serves on a path, in place of a socket that an agent left behind when it was killed.
func listenUnix(ctx context.Context, path string, mode fs.FileMode, group string) (*net.UnixListener, error) {
	if err := regularfile.MakeFolders(filepath.Dir(path), 0o755); err != nil { // whoever may call must get there
		return nil, fmt.Errorf("socket directory: %w", err)
	}
	if err := checkFolder(path); err != nil {
		return nil, err
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	listener, err := listenClosed(ctx, path)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &SocketInUseError{Path: path}
	}
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := giveTo(path, mode, group); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// listenClosed serves on a path to which nobody else can connect: the kernel makes a socket's file with the mode that the socket has when it
// is bound, less the umask.
func listenClosed(ctx context.Context, path string) (*net.UnixListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
		var changed error
		err := conn.Control(func(fd uintptr) { changed = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, changed)
	}}
	listener, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what it was for
	}
	unixListener, ok := listener.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(errors.New("agent: a listener that is not a Unix socket's"), listener.Close())
	}
	return unixListener, nil
}

// checkFolder refuses a folder in which everybody could put a socket of their own in place of the agent's, and be shown what callers send.
func checkFolder(path string) error {
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("socket directory: %w", err)
	}
	if mode := info.Mode(); mode.Perm()&0o002 != 0 && mode&fs.ModeSticky == 0 {
		return &ConfigError{"socket", path, fmt.Sprintf("a folder that not everybody can write to (mode %04o): anybody could pose as the agent there", mode.Perm())}
	}
	return nil
}

// removeStale removes a socket on which nobody listens. Anything else on the path is an error.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("socket: %s is there already and is no socket (%s): want a path that is free", path, info.Mode())
	}
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(&SocketInUseError{Path: path}, conn.Close())
	case errors.Is(err, syscall.ECONNREFUSED):
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a socket that was left behind: %w", err)
		}
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default: // it listens, but does not accept
		return &SocketInUseError{Path: path}
	}
}

// giveTo sets who may connect.
func giveTo(path string, mode fs.FileMode, group string) error {
	if group != "" {
		number, err := groupNumber(group)
		if err != nil {
			return err
		}
		if err := os.Lchown(path, -1, number); err != nil {
			return fmt.Errorf("socket: %w", err)
		}
	}
	if err := chmodSocket(path, mode); err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	return nil
}

// chmodSocket sets the mode of a socket and of nothing else: who owns the folder may have put a link to another file there by now.
func chmodSocket(path string, mode fs.FileMode) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	var found unix.Stat_t
	if err := unix.Fstat(fd, &found); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if found.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return &fs.PathError{Op: "chmod", Path: path, Err: errors.New("is no socket any more")}
	}
	return os.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode) //nolint:wrapcheck // such a descriptor cannot be changed by itself
}

func groupNumber(group string) (int, error) {
	if number, err := strconv.Atoi(group); err == nil {
		return number, nil
	}
	found, err := user.LookupGroup(group)
	if err != nil {
		return 0, &ConfigError{"socketGroup", group, "a group of this machine"}
	}
	number, err := strconv.Atoi(found.Gid)
	if err != nil {
		return 0, &ConfigError{"socketGroup", group, "a group with a number"}
	}
	return number, nil
}

// peerListener accepts connections of which the kernel says whose they are.
type peerListener struct {
	net.Listener

	peers       *peers
	meter       Meter
	connections *admission.Connections
	log         *slog.Logger
}

// peerConn is a connection of a user; who that is, and what they may, is asked for every request: the connection may outlive it.
type peerConn struct {
	*admission.Connection

	uid     *uint32 // nil: it is anybody's, over TCP
	process *peerProcess
}

// Close lets go of the peer, too.
func (c *peerConn) Close() error {
	c.process.close()
	return c.Connection.Close() //nolint:wrapcheck // it is the connection's
}

// Accept returns the next connection. One whose caller cannot be known, or has too many, is closed and passed over.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // the server decides on it
		}
		unixConn, isUnix := conn.(*net.UnixConn)
		if !isUnix {
			return nil, errors.Join(errors.New("agent: a connection that is not a Unix socket's"), conn.Close())
		}
		peer, err := credentials(unixConn)
		if err != nil {
			l.log.Warn("a connection was refused", "error", err)
			_ = conn.Close() // nothing was sent
			continue
		}
		counted := l.connections.Admit(conn, l.peers.atOnce(peer.Uid).counted()) // nobody waits here for a directory of users
		if counted == nil {
			_ = conn.Close() // nothing was sent
			continue
		}
		return &peerConn{Connection: counted, uid: &peer.Uid, process: connectedProcess(l.meter, unixConn, peer.Pid)}, nil
	}
}

// loopbackListener bounds the connections over TCP.
type loopbackListener struct {
	net.Listener

	agent *Agent
}

// Accept returns the next connection. Where there are too many it is closed and passed over.
func (l *loopbackListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // the server decides on it
		}
		if counted := l.agent.connections.Admit(conn, l.agent.local.counted()); counted != nil {
			return &peerConn{Connection: counted, process: l.agent.dialedProcess(conn)}, nil
		}
		_ = conn.Close() // nothing was sent
	}
}

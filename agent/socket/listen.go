package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/regularfile"
)

// Refuse makes the error of an unusable setting from its name, its value, and the wanted value.
type Refuse func(field, value, want string) error

// InUseError says that another process serves at the path of the agent's socket.
type InUseError struct {
	Path string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("socket %s: another agent serves it: stop that one, or give this one a socket of its own", e.Path)
}

// listenUnix serves at a path, in place of a socket that a killed agent left behind.
func listenUnix(ctx context.Context, path string, mode fs.FileMode, group string, refuse Refuse) (*net.UnixListener, error) {
	if err := regularfile.MakeFolders(filepath.Dir(path), 0o755); err != nil {
		// all callers need access
		return nil, fmt.Errorf("socket directory: %w", err)
	}
	if err := CheckFolder(path, refuse); err != nil {
		return nil, err
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	listener, err := listenClosed(ctx, path)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &InUseError{Path: path}
	}
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := setAccess(path, mode, group, refuse); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// listenClosed serves at a path to which no other user can connect yet. The kernel makes a socket's
// file with the mode of the socket when it is bound, less the umask.
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

// CheckFolder refuses a folder in which another user could replace the agent's socket, and get the
// requests of callers. Root's agent serves all users. So its folder and the folders above must
// belong to root, and no other user may write there. The exception is a folder of root with the
// sticky bit such as /tmp, where no user can remove another's files: a user who takes the path
// first only keeps the agent from starting, and clients refuse to talk to that user's socket. A
// missing folder is not checked.
func CheckFolder(path string, refuse Refuse) error {
	if os.Geteuid() == 0 {
		err := regularfile.Guarded(filepath.Dir(path), 0)
		wrong, is := errors.AsType[*regularfile.GuardError](err)
		if is && wrong.Owner == 0 && wrong.Mode&fs.ModeSticky != 0 {
			// this holds for the folder itself; for one above it, a sticky bit is no error
			return nil
		}
		if is {
			return refuse("socket", path, fmt.Sprintf("a folder that nobody else can change or replace (%s): they could pose as the agent there", wrong))
		}
		if err != nil {
			return fmt.Errorf("socket directory: %w", err)
		}
		return nil
	}
	info, err := os.Stat(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("socket directory: %w", err)
	}
	if mode := info.Mode(); mode.Perm()&0o002 != 0 && mode&fs.ModeSticky == 0 {
		return refuse("socket", path, fmt.Sprintf("a folder that not everybody can write to (mode %04o): anybody could pose as the agent there", mode.Perm()))
	}
	return nil
}

// removeStale removes a socket without a listening process. Any other file at the path is an error.
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
		return errors.Join(&InUseError{Path: path}, conn.Close())
	case errors.Is(err, syscall.ECONNREFUSED):
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a socket that was left behind: %w", err)
		}
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default: // it listens, but does not accept
		return &InUseError{Path: path}
	}
}

// setAccess sets which users may connect.
func setAccess(path string, mode fs.FileMode, group string, refuse Refuse) error {
	if group != "" {
		number, err := GroupNumber(group, refuse)
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

// chmodSocket sets the mode of a socket and of nothing else: the folder's owner may have put a link
// to another file there.
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

// GroupNumber returns the number of a group of this machine. group is its name, or its number if no
// group has that as its name.
func GroupNumber(group string, refuse Refuse) (int, error) {
	found, err := user.LookupGroup(group)
	if err != nil {
		if number, err := strconv.ParseUint(group, 10, 32); err == nil && number < 1<<32-1 {
			return int(number), nil
		}
		return 0, refuse("socketGroup", group, "a group of this machine")
	}
	number, err := strconv.Atoi(found.Gid)
	if err != nil {
		return 0, refuse("socketGroup", group, "a group with a number")
	}
	return number, nil
}

package statefile

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/peercred"
)

// flock takes the lock in a directory.
func flock(path string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the configured directory
	if errors.Is(err, unix.EROFS) {
		// The saved state can still be read, so that its engines are known.
		lock, err = os.Open(filepath.Join(path, lockFile)) //nolint:gosec // the configured directory
	}
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		err = errors.Join(err, lock.Close())
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &InUseError{Dir: path}
		}
		return nil, fmt.Errorf("lock state directory %s: %w", path, err)
	}
	return lock, nil
}

// Intact reports whether the locked directory is still in place: neither it nor its lock was
// removed or replaced.
func (d *Dir) Intact() bool {
	ours, err := d.lock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(filepath.Join(d.path, lockFile))
	return err == nil && os.SameFile(ours, there)
}

// restore makes the directory and its lock again if they were removed. The errors are Open's.
func (d *Dir) restore() error {
	if d.Intact() {
		return nil
	}
	if err := makeFolder(d.path); err != nil {
		return err
	}
	lock, err := flock(d.path)
	if err != nil {
		return err
	}
	before := d.lock
	d.lock, d.log = lock, openLog{}
	if err := before.Close(); err != nil {
		return fmt.Errorf("unlock state directory: %w", err)
	}
	return nil
}

// nameLock is a second lock, on the directory's name: a removal of the directory does not release
// it. It is an abstract Unix socket, which the kernel removes with the process. Any user of the
// machine can take such a name, so a name that another user has is no lock. Names belong to a
// network namespace: it does not exclude an agent in another one. A process that connects learns
// its owner. The owner closes each connection at once: waiting connections would keep others from
// asking.
type nameLock struct {
	listener *net.UnixListener // nil: another process has the name
	closed   chan struct{}     // closed when closeConnections has ended
}

const (
	// askTries is how often the owner of a name is asked, and askPause the pause between: others
	// may ask at the same time.
	askTries = 50
	askPause = 10 * time.Millisecond
)

// lockName takes the name of an existing directory. The error is an *InUseError.
func lockName(path string) (*nameLock, error) {
	name, err := nameOf(path)
	if err != nil {
		return nil, fmt.Errorf("lock state directory %s: %w", path, err)
	}
	address := &net.UnixAddr{Name: name, Net: "unix"}
	if listener, err := net.ListenUnix("unix", address); err == nil {
		l := &nameLock{listener: listener, closed: make(chan struct{})}
		go l.closeConnections()
		return l, nil
	}
	if askForOwner(address) {
		return nil, &InUseError{Dir: path}
	}
	return &nameLock{}, nil
}

// askForOwner reports whether a process of this process's user has the name and accepts
// connections, as every agent does.
func askForOwner(address *net.UnixAddr) bool {
	for range askTries {
		conn, err := net.DialUnix("unix", nil, address) // this never waits
		if errors.Is(err, unix.EAGAIN) {
			<-time.After(askPause)
			continue
		}
		if err != nil {
			return false
		}
		owner, err := peercred.Of(conn)
		_ = conn.Close() // nothing was sent
		return err == nil && int64(owner.Uid) == int64(os.Geteuid())
	}
	return false
}

// closeConnections closes each new connection.
func (l *nameLock) closeConnections() {
	defer close(l.closed)
	for {
		conn, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			<-time.After(askPause) // no descriptor is left
			continue
		}
		_ = conn.Close() // nothing was read
	}
}

func (l *nameLock) close() error {
	if l.listener == nil {
		return nil
	}
	err := l.listener.Close()
	<-l.closed
	return err //nolint:wrapcheck // the caller says what it is about
}

// nameOf returns a name that is the same for every process with the directory at this path, also
// after it was removed and made again. It differs in other roots and on other file systems, such as
// those of containers.
func nameOf(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", err //nolint:wrapcheck // the caller says what it is about
	}
	var root, above unix.Stat_t
	if err := errors.Join(unix.Stat("/", &root), unix.Stat(filepath.Dir(path), &above)); err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %d %s", root.Dev, root.Ino, above.Dev, path))
	return fmt.Sprintf("@bursar-agent-state-%x", sum[:16]), nil
}

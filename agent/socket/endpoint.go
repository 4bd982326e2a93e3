package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/bursar/bursar/internal/sockdiag"
)

// endpoint is the agent's Unix socket. It is made again if it is removed while the agent runs.
type endpoint struct {
	options Options
	path    string
	// given: a service manager has made it, perhaps without telling its path.
	given bool
	// Used only by the measuring loop:
	made fs.FileInfo // the socket's file at the path; nil: not known
	// owner and mode of a given socket, as found at the path; nil: not known
	rules   fs.FileInfo
	problem string // as last logged

	mu      sync.Mutex
	current net.Listener       // guarded by mu; the latest one
	serve   func(net.Listener) // guarded by mu; nil: not serving
}

// open returns the socket of a service manager unchanged. If there is none, it makes one.
func (s *endpoint) open(ctx context.Context) (net.Listener, error) {
	configured := s.options.Where().Path
	s.path = configured
	if s.current = s.options.Given; s.current != nil {
		s.given = true
		if s.path = s.current.Addr().String(); s.path != configured {
			s.options.Log.Warn("the socket that the service manager has opened is served, not the one that is configured", "socket", s.path, "configured", configured)
		}
		if filepath.IsAbs(s.path) {
			if err := CheckFolder(s.path, s.options.Refuse); err != nil {
				return nil, err
			}
		}
		s.find(ctx)
		return s.current, nil
	}
	listener, err := s.listen(ctx)
	if err != nil {
		return nil, err
	}
	s.current = listener
	return listener, nil
}

// find reads the path of a given socket. If the path has the file of another socket, an earlier
// incarnation has made it in place of a removed one, with the same mode.
func (s *endpoint) find(ctx context.Context) {
	info, err := os.Lstat(s.path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return
	}
	s.rules = info
	if s.isGiven(ctx, info) {
		s.made = info
	}
}

// isGiven reports whether a file is, or may be, that of the given socket. Systemd counts
// connections to a socket until its service has started, so isGiven connects only if the kernel
// does not tell.
func (s *endpoint) isGiven(ctx context.Context, file fs.FileInfo) bool {
	if given, is := s.options.Given.(*net.UnixListener); is {
		stat, _ := file.Sys().(*syscall.Stat_t) // on Linux it always is
		if inode, err := sockdiag.File(given); err == nil {
			return inode == uint32(stat.Ino) //nolint:gosec // the kernel tells as many bits
		}
	}
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "unix", s.path)
	if err == nil {
		_ = conn.Close() // nothing was sent
	}
	return !errors.Is(err, syscall.ECONNREFUSED)
}

// listen makes the socket.
func (s *endpoint) listen(ctx context.Context) (listener *net.UnixListener, err error) {
	where := s.options.Where()
	mode, group := where.Mode, where.Group
	owner := os.Geteuid()
	if s.given {
		if s.rules == nil {
			return nil, errors.New("who may connect to it is not known")
		}
		stat, _ := s.rules.Sys().(*syscall.Stat_t) // on Linux it always is
		mode, group, owner = s.rules.Mode().Perm(), strconv.FormatUint(uint64(stat.Gid), 10), int(stat.Uid)
	}
	if listener, err = listenUnix(ctx, s.path, mode, group, s.options.Refuse); err != nil {
		return nil, err
	}
	if s.made, err = os.Lstat(s.path); err == nil && owner != os.Geteuid() {
		err = os.Lchown(s.path, owner, -1)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("socket: %w", err), listener.Close())
	}
	// The service manager removes a socket that it has given. If the file stays, the next
	// incarnation can read its mode.
	listener.SetUnlinkOnClose(!s.given)
	return listener, nil
}

// serveBy sets the function that serves on another listener.
func (s *endpoint) serveBy(serve func(net.Listener)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serve = serve
}

// replaced reports whether another listener serves the socket in place of this one.
func (s *endpoint) replaced(listener net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ofPeers, is := listener.(*peerListener)
	return is && ofPeers.Listener != s.current
}

// check makes the socket again if it is missing, and returns the reason if that fails; otherwise
// empty.
func (s *endpoint) check(ctx context.Context) (problem string) {
	s.mu.Lock()
	serving := s.serve != nil
	s.mu.Unlock()
	if !serving || !filepath.IsAbs(s.path) { // an abstract one cannot be removed
		return ""
	}
	if info, err := os.Lstat(s.path); err == nil && s.made != nil && os.SameFile(info, s.made) {
		return s.logProblem(ctx, "")
	}
	listener, err := s.listen(ctx)
	if err != nil {
		problem = fmt.Sprintf("the socket %s was removed and cannot be made again: %s", s.path, err)
		if s.given {
			problem += "; restart the unit that made it (systemctl restart bursar-agent.socket)"
		}
		return s.logProblem(ctx, problem)
	}
	s.options.Log.WarnContext(ctx, "the socket was removed while the agent runs: it was made again", "socket", s.path)
	s.use(listener)
	return s.logProblem(ctx, "")
}

// use serves on a listener in place of the latest one.
func (s *endpoint) use(listener *net.UnixListener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serve == nil { // the agent ends
		_ = listener.Close()
		return
	}
	before := s.current
	s.current = listener
	s.serve(listener)
	if own, is := before.(*net.UnixListener); is && before != s.options.Given {
		own.SetUnlinkOnClose(false) // the path belongs to another socket now
		_ = own.Close()             // no caller can reach it any more
	}
}

// logProblem logs a new problem.
func (s *endpoint) logProblem(ctx context.Context, problem string) string {
	if problem != s.problem && problem != "" {
		s.options.Log.LogAttrs(ctx, slog.LevelError, "no new engines: callers cannot reach the agent", slog.String("error", problem))
	}
	s.problem = problem
	return problem
}

package agent_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/statefile"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// reaches waits until a new connection gets to the agent.
func (s *subject) reaches() {
	s.t.Helper()
	until(s.t, "callers reach the agent", func() bool {
		s.http.CloseIdleConnections()
		_, err := s.List(s.t.Context(), &bursarv1.AllocationServiceListRequest{})
		return err == nil
	})
}

// refusal waits until the host says that it takes no engines, and why, or with an empty text that
// it takes them.
func (s *subject) refusal(want string) {
	s.t.Helper()
	s.coordinator.await("the host's refusal is "+want, func() bool {
		if len(s.coordinator.syncs) == 0 {
			return false
		}
		got := s.coordinator.syncs[len(s.coordinator.syncs)-1].GetSample().GetRefusal()
		return want == "" && got == "" || want != "" && strings.Contains(got, want)
	})
}

// socketRules say who may connect.
func (s *subject) socketRules() (mode fs.FileMode, uid, gid uint32) {
	s.t.Helper()
	var found unix.Stat_t
	if err := unix.Stat(s.config.Socket, &found); err != nil {
		s.t.Fatal(err)
	}
	return fs.FileMode(found.Mode).Perm(), found.Uid, found.Gid
}

func TestSocketThatIsRemovedIsMadeAgain(t *testing.T) {
	s := newSubject(t)
	s.config.SocketMode, s.config.SocketGroup = "0660", "65534"
	s.start()
	a, cmd := s.engine(10, "exec sleep 1000")
	for name, remove := range map[string]string{"socket": s.config.Socket, "folder": filepath.Dir(s.config.Socket), "again": s.config.Socket} {
		if err := os.RemoveAll(remove); err != nil {
			t.Fatal(err)
		}
		s.reaches()
		if mode, _, gid := s.socketRules(); mode != 0o660 || gid != nobody {
			t.Errorf("%s: mode %v, of group %d", name, mode, gid)
		}
	}
	s.coordinator.awaitState(a.GetId(), active)
	if zombie(cmd.Process.Pid) {
		t.Error("the engine was ended")
	}
	s.refusal("")
	s.stop()
	if _, err := os.Stat(s.config.Socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the agent has ended: %v", err)
	}
}

func TestHostSaysThatItsSocketCannotBeMadeAgain(t *testing.T) {
	s := run(t)
	if err := errors.Join(os.Remove(s.config.Socket), os.WriteFile(s.config.Socket, []byte("precious"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s.refusal("the socket " + s.config.Socket + " was removed and cannot be made again: socket: " + s.config.Socket + " is there already and is no socket")
	if err := os.Remove(s.config.Socket); err != nil {
		t.Fatal(err)
	}
	s.refusal("")
	s.reaches()
}

// givenSocket is what a service manager keeps, and each incarnation gets a copy of.
func givenSocket(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	given, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	given.SetUnlinkOnClose(false)
	t.Cleanup(func() { _ = given.Close() })
	return given
}

func handOver(t *testing.T, given *net.UnixListener) net.Listener {
	t.Helper()
	file, err := given.File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	handed, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	return handed
}

// The socket of a service manager that is removed is made again by the agent, for the same
// callers, and by the next one: the service manager knows nothing of it.
func TestGivenSocketThatIsRemovedIsMadeAgainForTheSameCallers(t *testing.T) {
	s := newSubject(t)
	if err := os.Mkdir(filepath.Dir(s.config.Socket), 0o755); err != nil {
		t.Fatal(err)
	}
	kept := givenSocket(t, s.config.Socket)
	if err := errors.Join(os.Chown(s.config.Socket, nobody, nobody), os.Chmod(s.config.Socket, 0o620)); err != nil {
		t.Fatal(err)
	}
	same := func(when string) {
		t.Helper()
		s.reaches()
		if mode, uid, gid := s.socketRules(); mode != 0o620 || uid != nobody || gid != nobody {
			t.Errorf("%s: mode %v, of %d:%d", when, mode, uid, gid)
		}
	}
	s.given = handOver(t, kept)
	s.start()
	if err := os.Remove(s.config.Socket); err != nil {
		t.Fatal(err)
	}
	same("made again")
	s.stop()
	s.given = handOver(t, kept)
	s.start()
	same("by the next incarnation")
	s.stop()
	if err := os.Remove(s.config.Socket); err != nil {
		t.Fatal(err)
	}
	s.given = handOver(t, kept)
	s.start()
	s.refusal("who may connect to it is not known; restart the unit that made it (systemctl restart bursar-agent.socket)")
}

// removeAll removes a directory that an agent may be writing to.
func removeAll(path string) (err error) {
	for err = syscall.ENOTEMPTY; errors.Is(err, syscall.ENOTEMPTY); {
		err = os.RemoveAll(path)
	}
	return err
}

// While its directory is away or another's, no second agent takes the host's engines; the first
// one writes down again what it knows.
func TestStateDirectoryThatIsRemovedIsMadeAgain(t *testing.T) {
	for name, remove := range map[string]func(dir string) error{
		"the directory":        removeAll,
		"the one above":        func(dir string) error { return removeAll(filepath.Dir(dir)) },
		"the lock":             func(dir string) error { return os.Remove(filepath.Join(dir, "lock")) },
		"by another directory": func(dir string) error { return errors.Join(os.Rename(dir, dir+".old"), os.MkdirAll(dir, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t)
			s.config.StateDir = filepath.Join(s.config.StateDir, "of", "agent")
			s.start()
			a, _ := s.engine(10, "exec sleep 1000")
			if err := remove(s.config.StateDir); err != nil {
				t.Fatal(err)
			}
			var inUse *statefile.InUseError
			second := newSubject(t)
			second.config.StateDir = s.config.StateDir
			if err := second.runError(); !errors.As(err, &inUse) {
				t.Fatalf("a second agent: %v", err)
			}
			until(t, "the lock is held again, next to all that is known", func() bool {
				dir, err := statefile.Open(s.config.StateDir)
				if err == nil {
					_ = dir.Close()
				}
				_, lost := os.Stat(filepath.Join(s.config.StateDir, "lock"))
				content, _ := os.ReadFile(s.stateFile())
				return errors.As(err, &inUse) && lost == nil && strings.Contains(string(content), a.GetId())
			})
			b, _ := s.engine(10, "exec sleep 1000")
			s.refusal("")
			s.stop()
			if got := s.state().Engines; len(got) != 2 || got[0].GetId() != a.GetId() || got[1].GetId() != b.GetId() {
				t.Errorf("left: %v", got)
			}
		})
	}
}

func TestHostSaysThatItsStateDirectoryCannotBeMadeAgain(t *testing.T) {
	s := run(t)
	for err := os.ErrExist; err != nil; err = os.WriteFile(s.config.StateDir, nil, 0o600) {
		if err := removeAll(s.config.StateDir); err != nil {
			t.Fatal(err)
		}
	}
	s.refusal("the state directory was removed and cannot be made again: write state: state directory: mkdir " + s.config.StateDir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := s.Allocate(ctx, request(1)); err == nil {
		t.Error("an engine was let in that would be forgotten")
	}
	if err := os.Remove(s.config.StateDir); err != nil {
		t.Fatal(err)
	}
	s.refusal("")
	s.engine(10, "exec sleep 1000")
}

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// limitedVariable names, in the environment of a child, the directory in which it runs out of
// room, and how.
const limitedVariable = "BURSAR_SQLITE_LIMITED"

// limitedChild is this test's binary as the child of the tests below. It returns false in other
// processes.
func limitedChild() (isChild bool, err error) {
	how, dir, isChild := strings.Cut(os.Getenv(limitedVariable), ":")
	switch {
	case !isChild:
		return false, nil
	case how == "disk":
		return true, fillDisk(dir)
	default:
		return true, exceedFileSize(dir)
	}
}

// runLimited runs the child and fails the test with its output.
func runLimited(t *testing.T, how string, attributes *syscall.SysProcAttr) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), executable)
	child.Env = append(os.Environ(), limitedVariable+"="+how+":"+t.TempDir())
	child.SysProcAttr = attributes
	if output, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

// A full disk, here one of 1 MiB in a separate namespace: writes that do not fit are refused, and
// no acknowledged write is lost; when there is room again, the store continues.
// (TestFailuresThatAreKnown shows the same where the kernel does not allow such a disk.)
func TestFullDisk(t *testing.T) {
	attributes := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	probe := exec.CommandContext(t.Context(), "/bin/true")
	probe.SysProcAttr = attributes
	if err := probe.Run(); err != nil {
		t.Logf("no namespaces here: %v", err)
		return
	}
	runLimited(t, "disk", attributes)
}

func fillDisk(dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 256<<10), 0o600); err != nil {
		return err
	}
	ctx := context.Background()
	// root in this namespace, below folders of users that it does not have
	options := Options{OthersFolder: true}
	path := filepath.Join(dir, "bursar.db")
	s, err := Open(ctx, path, options)
	if err != nil {
		return err
	}
	acknowledged, err := commitUntilFailure(ctx, s)
	if !errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrUnknownOutcome) || acknowledged == 0 {
		return fmt.Errorf("after %d commits: %w; want %w", acknowledged, err, store.ErrFull)
	}
	if a, err := s.Get(ctx, 1); err != nil || a.Revision != acknowledged {
		return fmt.Errorf("reading: revision %d, %w; want %d", a.Revision, err, acknowledged)
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if err := verify(ctx, s, acknowledged, acknowledged); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	if s, err = Open(ctx, path, options); err != nil {
		return err
	}
	return errors.Join(verify(ctx, s, acknowledged, acknowledged), s.Close())
}

// A write that fails in the middle of a commit, other than for lack of room: the outcome is
// reported as unknown, and is all or nothing.
func TestWriteFailsInCommit(t *testing.T) { runLimited(t, "file size", nil) }

func exceedFileSize(dir string) error {
	ctx := context.Background()
	s, err := Open(ctx, filepath.Join(dir, "bursar.db"), Options{})
	if err != nil {
		return err
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 500_000, Max: before.Max}); err != nil {
		return err
	}
	acknowledged, err := commitUntilFailure(ctx, s)
	if !errors.Is(err, store.ErrUnknownOutcome) || !errors.Is(err, store.ErrIO) || acknowledged == 0 {
		return fmt.Errorf("after %d commits: %w; want %w", acknowledged, err, store.ErrUnknownOutcome)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	return errors.Join(verify(ctx, s, acknowledged, acknowledged+1), s.Close())
}

// commitUntilFailure changes ten allocations from revision to revision. It returns the last
// acknowledged one.
func commitUntilFailure(ctx context.Context, s *Store) (acknowledged uint64, err error) {
	meta, err := s.Lead(ctx, 0)
	if err != nil {
		return 0, err
	}
	for revision := uint64(1); ; revision++ {
		c := allocations(1, 10, revision)
		c.Transitions = append(c.Transitions, allocations(ledger.ID(revision*100), 1, revision).Transitions...)
		if err := s.Commit(ctx, store.Batch{Epoch: meta.Epoch, Changes: c}); err != nil {
			return revision - 1, err
		}
	}
}

// verify checks that the store is at a revision between the two, in all of its rows.
func verify(ctx context.Context, s *Store, least, most uint64) error {
	meta, err := s.Lead(ctx, 0)
	if err != nil {
		return err
	}
	snapshot, err := s.Load(ctx, meta.Epoch, time.Time{}, nil)
	if err != nil {
		return err
	}
	if r := snapshot.Revision; r < least || r > most || uint64(len(snapshot.Allocations)) != 10+r {
		return fmt.Errorf("revision %d with %d allocations; want between %d and %d", r, len(snapshot.Allocations), least, most)
	}
	for _, a := range snapshot.Allocations {
		if a.ID <= 10 && a.Revision != snapshot.Revision {
			return fmt.Errorf("allocation %d at revision %d, the store at %d", a.ID, a.Revision, snapshot.Revision)
		}
	}
	return nil
}

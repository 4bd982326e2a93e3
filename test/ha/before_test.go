//go:build linux

package ha

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// The version before this one: what operators upgrade from. It is named here, because a commit
// found by a rule (a file's last change, a tag) moves when history is squashed, and is then a
// commit of this version.
//
// A release moves it, and nothing else does. The first commit after a release names the release's
// commit and the number of its migrations here and in docs/operations.md, and runs `make
// contract-baseline` in the released tree. TestTheVersionBeforeIsTheReleasedOne fails if one of
// these is moved without the others.
const (
	beforeCommit = "02ade4b13a98688a8989c9fe16972d3d03e7e187" // the last commit before issue 10
	beforeSchema = 3
)

// version is one that was built.
type version struct {
	program string // its bursar
	schema  int    // how many migrations its stores have
}

// built is the version before, once for all tests that want it.
var built = sync.OnceValues(buildBefore)

// versionBefore returns the version before this one. Without its commit the test fails: it would
// test nothing.
func versionBefore(t *testing.T) version {
	t.Helper()
	began := time.Now()
	before, err := built()
	if err != nil {
		t.Fatalf("the version before: %v", err)
	}
	t.Logf("the version before, %.7s, is there after %v", beforeCommit, time.Since(began).Round(time.Second))
	return before
}

func buildBefore() (version, error) {
	history := repository("../..")
	if err := history.has(beforeCommit); err != nil {
		return version{}, err
	}
	archive, err := history.git("archive", "--prefix=before/", beforeCommit)
	if err != nil {
		return version{}, err
	}
	unpack := exec.Command("tar", "-x", "-C", binaries)
	unpack.Stdin = bytes.NewReader(archive)
	if output, err := unpack.CombinedOutput(); err != nil {
		return version{}, fmt.Errorf("unpack: %w: %s", err, output)
	}
	tree := filepath.Join(binaries, "before")
	before := version{program: filepath.Join(binaries, "bursar-before")}
	migrations, err := migrationsIn(tree)
	if err != nil {
		return version{}, err
	}
	before.schema = len(migrations)
	if err := build(tree, before.program); err != nil {
		return version{}, fmt.Errorf("%w\n(no network here: `go mod download` in a checkout of %s fetches what it needs)", err, beforeCommit)
	}
	return before, nil
}

// repository is a git repository, by its directory.
type repository string

func (r repository) git(arguments ...string) ([]byte, error) {
	output, err := exec.Command("git", append([]string{"-C", string(r), "-c", "safe.directory=*"}, arguments...)...).Output()
	if err != nil {
		var said []byte
		if exit, is := errors.AsType[*exec.ExitError](err); is {
			said = bytes.TrimSpace(exit.Stderr)
		}
		return nil, fmt.Errorf("git %s: %w: %s", strings.Join(arguments, " "), err, said)
	}
	return output, nil
}

// has checks that a commit is there.
func (r repository) has(commit string) error {
	if _, err := r.git("cat-file", "-e", commit+"^{commit}"); err != nil {
		return fmt.Errorf("commit %s is not in this clone: a shallow one needs `git fetch --unshallow`, a tree without git has no such tests: %w", commit, err)
	}
	return nil
}

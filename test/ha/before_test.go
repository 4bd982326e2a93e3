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

// The version before this one is the tree in which the contract's baseline was set: the commit that last changed this file.
const baseline = "proto/baseline.binpb"

// version is one that was built.
type version struct {
	program string // its bursar
	schema  int    // how many migrations its stores have
}

// errNoHistory says that the tree has no version before this one to build.
var errNoHistory = errors.New("no history of the tree")

// built is the version before, once for all tests that want it.
var built = sync.OnceValues(buildBefore)

// versionBefore returns the version before this one. In a shallow clone, or in a tree without git, there is none: a test does without it
// what it can, and its log says so.
func versionBefore(t *testing.T) (version, bool) {
	t.Helper()
	began := time.Now()
	before, err := built()
	if errors.Is(err, errNoHistory) {
		t.Logf("%v: nothing here is of the version before", err)
		return version{}, false
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the version before is there after %v", time.Since(began).Round(time.Second))
	return before, true
}

func buildBefore() (version, error) {
	git := func(arguments ...string) ([]byte, error) {
		return exec.Command("git", append([]string{"-C", "../..", "-c", "safe.directory=*"}, arguments...)...).Output()
	}
	shallow, err := git("rev-parse", "--is-shallow-repository")
	if err != nil || strings.TrimSpace(string(shallow)) != "false" {
		return version{}, errNoHistory
	}
	commit, err := git("log", "-1", "--format=%H", "--", baseline)
	if err != nil || len(commit) == 0 {
		return version{}, errNoHistory
	}
	archive, err := git("archive", "--prefix=before/", strings.TrimSpace(string(commit)))
	if err != nil {
		return version{}, fmt.Errorf("git archive: %w", err)
	}
	unpack := exec.Command("tar", "-x", "-C", binaries)
	unpack.Stdin = bytes.NewReader(archive)
	if output, err := unpack.CombinedOutput(); err != nil {
		return version{}, fmt.Errorf("unpack: %w: %s", err, output)
	}
	tree := filepath.Join(binaries, "before")
	before := version{program: filepath.Join(binaries, "bursar-before")}
	if before.schema, err = migrationsOf(tree); err != nil {
		return version{}, err
	}
	return before, build(tree, before.program)
}

// migrationsOf counts those that a tree has for PostgreSQL. SQLite has as many.
func migrationsOf(tree string) (int, error) {
	files, err := filepath.Glob(filepath.Join(tree, "coordinator/store/postgres/migrations/*.sql"))
	if err == nil && len(files) == 0 {
		err = errors.New("there are none")
	}
	if err != nil {
		return 0, fmt.Errorf("migrations of %s: %w", tree, err)
	}
	return len(files), nil
}

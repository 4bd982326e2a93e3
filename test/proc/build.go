package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Build describes a build of programs of a module. All builds share go's own cache: code with the
// same flags is compiled once for all test packages.
type Build struct {
	// Into is the file of the program or, with a trailing slash, the folder for several.
	Into string
	// Packages are the packages of the programs, such as ./cmd/bursar, which is the default.
	Packages []string
	// Tree is the folder of another checkout; empty: the module that this process runs in.
	Tree string
	// Flags are additional flags of go build.
	Flags []string
	// Race builds with the race detector, as the Makefile does; otherwise programs are static.
	Race bool
	// Environment extends this process's environment.
	Environment []string
}

// Run builds the programs. An error contains go's output.
func (b Build) Run(ctx context.Context) error {
	arguments := []string{"build", "-trimpath", "-buildvcs=false", "-o", b.Into}
	environment := append(os.Environ(), b.Environment...)
	if b.Race {
		arguments = append(arguments, "-race", "-gcflags=all=-d=checkptr=0", "-gcflags=github.com/bursar/bursar/...=", "-gcflags=modernc.org/...=-race=false")
	} else {
		environment = append(environment, "CGO_ENABLED=0")
	}
	packages := b.Packages
	if len(packages) == 0 {
		packages = []string{"./cmd/bursar"}
	}
	tree := b.Tree
	if tree == "" {
		var err error
		if tree, err = Root(); err != nil {
			return fmt.Errorf("build: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, "go", slices.Concat(arguments, b.Flags, packages)...) //nolint:gosec // that is what it is for
	cmd.Dir, cmd.Env = tree, environment
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %v: %w\n%s", packages, err, bytes.TrimSpace(said))
	}
	return nil
}

// Root returns the folder of the module that this process runs in.
func Root() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("folder of the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("not within a module")
		}
		folder = parent
	}
}

package systemd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bursar/bursar/test/proc"
)

// installed returns the folder of the Debian that the machines start from, as made by the present
// version of tools/systemd/provide.sh.
func installed() (string, error) {
	module, err := proc.Root()
	if err != nil {
		return "", err
	}
	script, err := os.ReadFile(filepath.Join(module, "tools", "systemd", "provide.sh")) //nolint:gosec // of this module
	if err != nil {
		return "", err
	}
	place := filepath.Join(module, ".cache", "tools", fmt.Sprintf("debian-bookworm-%x", sha256.Sum256(script))[:len("debian-bookworm-")+12])
	if _, err := os.Stat(place); err != nil { //nolint:gosec // of this module
		return "", fmt.Errorf("%w: run make systemd", err)
	}
	return place, nil
}

// BuildTest builds a package's tests as a static program that a machine can run: `/opt/test/NAME
// -test.v`.
func BuildTest(ctx context.Context, to, pkg string) error {
	module, err := proc.Root()
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "test", "-c", "-trimpath", "-o", to, pkg) //nolint:gosec // that is what it is for
	command.Dir = module
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go test: %w\n%s", err, said)
	}
	return nil
}

// copyFile copies a file with its permissions.
func copyFile(to, from string) error {
	source, err := os.Open(from) //nolint:gosec // what the test names
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm()|0o444) //nolint:gosec // in the folder of the machine
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

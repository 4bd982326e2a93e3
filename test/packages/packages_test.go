// Package packages builds the packages as make packages does, checks what is in them, and
// installs, upgrades, removes and purges them in a copy of this machine's tree, without a running
// systemd. test/systemd does so with one.
//
// It needs root, for that tree: an overlay over / in a mount namespace of its own, of which
// nothing stays.
package packages

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// root is the tree that is packaged.
const root = "../.."

// rpmArches are the names of RPM for the architectures that packages are built for, by those of Go
// and Debian.
var rpmArches = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// made is what TestMain has built: all formats, for each of -arches.
type made struct{ dir, version string }

var built made

var ready = flag.String("packages", "", "a folder with the packages that make packages has built from this tree; without it they are built")

var arches = flag.String("arches", runtime.GOARCH, "the architectures that packages are built for and looked at, with spaces between")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "bursar-packages-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	version, err := exec.Command(filepath.Join(root, "deploy/package/version.sh")).Output()
	built = made{dir, strings.TrimSpace(string(version))}
	switch {
	case err != nil:
	case *ready != "":
		built.dir = *ready
	default:
		err = built.make("ARCHES=" + *arches)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// make runs make packages.
func (p made) make(env ...string) error {
	cmd := exec.Command("make", "-C", root, "packages", "PACKAGE_VERSION="+p.version)
	cmd.Env = append(append(os.Environ(), "OUT="+p.dir, "MAKEFLAGS="), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make packages: %w\n%s", err, out)
	}
	return nil
}

func (p made) deb(arch string) string {
	return filepath.Join(p.dir, fmt.Sprintf("bursar_%s-1_%s.deb", p.version, arch))
}

func (p made) rpm(arch string) string {
	return filepath.Join(p.dir, fmt.Sprintf("bursar-%s-1.%s.rpm", p.version, rpmArches[arch]))
}

func (p made) tar(arch string) string {
	return filepath.Join(p.dir, fmt.Sprintf("bursar-%s-linux-%s.tar.gz", p.version, arch))
}

// output runs a program to its end and returns what it wrote to both.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out.Bytes())
	}
	return out.String()
}

// unpacked is the folder with what the package for this machine installs.
func unpacked(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	output(t, "dpkg-deb", "-x", built.deb(runtime.GOARCH), dir)
	return dir
}

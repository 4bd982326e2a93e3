package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bursar/bursar/test/proc"
)

// packages are the packages under test, for this machine's architecture.
type packages struct {
	folder string
	// deb is version 1.0.0 from `make deb`. plain is the same without compression, which would take
	// a virtual machine half a minute.
	deb, plain string
	// newer is the same as version 1.1.0, with another agent.yaml.
	newer string
}

// built builds them once, in parallel with the tests that do not need them.
var built func() (packages, error)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		folder, err := os.MkdirTemp("", "machines-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(folder)
		ctx, cancel := context.WithCancel(context.Background())
		built = sync.OnceValues(func() (packages, error) { return build(ctx, folder) })
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = built()
		}()
		defer func() { cancel(); <-ended }()
		return m.Run()
	}())
}

func build(ctx context.Context, folder string) (packages, error) {
	module, err := proc.Root()
	if err != nil {
		return packages{}, err
	}
	p := packages{
		folder: folder, deb: os.Getenv("BURSAR_TEST_DEB"), // to test an existing one
		plain: filepath.Join(folder, "plain.deb"), newer: filepath.Join(folder, "newer.deb"),
	}
	if p.deb == "" {
		nfpm, err := filepath.Glob(filepath.Join(module, ".cache", "tools", "nfpm-*", "nfpm"))
		if err != nil || len(nfpm) == 0 {
			return packages{}, errors.Join(err, errors.New("no nfpm below .cache/tools: run make test-systemd"))
		}
		command := exec.CommandContext(ctx, filepath.Join(module, "deploy", "package", "build.sh"), "deb")
		command.Env = append(os.Environ(), "VERSION=1.0.0", "ARCHES=amd64", "OUT="+folder, "NFPM="+nfpm[len(nfpm)-1])
		if said, err := command.CombinedOutput(); err != nil {
			return packages{}, fmt.Errorf("make deb: %w\n%s", err, said)
		}
		p.deb = filepath.Join(folder, "bursar_1.0.0-1_amd64.deb")
	}
	const repack = `dpkg-deb -R "$1" "$2"
dpkg-deb --root-owner-group -Znone -b "$2" "$3" >/dev/null
sed -i 's/^Version: .*/Version: 1.1.0-1/' "$2/DEBIAN/control"
echo '# Of the new version.' >>"$2/etc/bursar/agent.yaml"
dpkg-deb --root-owner-group -Znone -b "$2" "$4" >/dev/null
rm -r "$2"`
	command := exec.CommandContext(ctx, "sh", "-euc", repack, "sh", p.deb, filepath.Join(folder, "unpacked"), p.plain, p.newer)
	if said, err := command.CombinedOutput(); err != nil {
		return packages{}, fmt.Errorf("dpkg-deb: %w\n%s", err, said)
	}
	return p, nil
}

// files are in /opt/test of every machine of these tests.
func (p packages) files(kind Kind) map[string]string {
	files := map[string]string{"bursar.deb": p.deb, "newer.deb": p.newer}
	if kind == Virtual {
		files["bursar.deb"] = p.plain
	}
	return files
}

// lines returns the nonempty lines of a text.
func lines(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
}

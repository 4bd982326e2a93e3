//go:build linux

// Package ha runs Bursar as a platform team would: three coordinators, each with a Consul server
// of its own, one PostgreSQL, and many agents. Every one is a real process on a network of its own
// (test/netlab), and all have load. Machines are killed, stopped, cut off, restarted and put back,
// and after each fault the ledger is compared with what every client knows and with what every
// agent holds.
package ha

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/test/netlab"
	"github.com/bursar/bursar/test/proc"
)

// executable is the bursar under test, and binaries the directory that it is in. TestMain sets
// them.
var executable, binaries string

func TestMain(m *testing.M) {
	if !netlab.Inside() { // it will start this program again, or become another one
		os.Exit(netlab.Main(m))
	}
	dir, err := os.MkdirTemp("", "bursar-ha")
	if err == nil {
		executable, binaries = filepath.Join(dir, "bursar"), dir
		err = errors.Join(os.Chmod(dir, 0o755), build("../..", dir+"/")) // users of engines execute bursar-keeper
	}
	code := 1
	if err == nil {
		code = netlab.Main(m)
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// build builds the programs of a tree into a folder, or its bursar alone. It needs no network: the
// module's dependencies are here since this test was built.
func build(tree, into string, flags ...string) error {
	var packages []string
	if strings.HasSuffix(into, "/") {
		packages = []string{"./cmd/bursar", "./cmd/bursar-keeper"}
	}
	return proc.Build{
		Packages: packages, Into: into, Tree: tree, Flags: flags, Environment: []string{"GOPROXY=off", "GOFLAGS=-mod=readonly", "GOWORK=off"},
	}.Run(context.Background())
}

// patience is how long something that takes a second or two may take on a busy machine.
const patience = 90 * time.Second

// pollEvery is how often a condition is checked.
const pollEvery = 50 * time.Millisecond

// eventually waits until the condition holds, that is gives no error.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	proc.Eventually(t, patience, pollEvery, what, condition)
}

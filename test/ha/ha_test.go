//go:build linux

// Package ha runs Bursar as a platform team would: three coordinators, each with a Consul server of its own, one PostgreSQL, and many
// agents, every one a real process on a network of its own (test/netlab), with load on all. Machines are killed, stopped, cut off,
// restarted and put back, and after each the books are compared with what every client was told and with what every agent holds.
package ha

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/test/netlab"
)

// executable is the bursar under test, and binaries the directory that it is in. TestMain sets them.
var executable, binaries string

func TestMain(m *testing.M) {
	if !netlab.Inside() { // it will start this program anew, or become another one
		os.Exit(netlab.Main(m))
	}
	dir, err := os.MkdirTemp("", "bursar-ha")
	if err == nil {
		executable, binaries = filepath.Join(dir, "bursar"), dir
		err = build("../..", executable)
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

// build builds the bursar of a tree. It has to do without a network, as the module's dependencies are here since this test was built.
func build(tree, into string, flags ...string) error {
	cmd := exec.Command("go", slices.Concat([]string{"build", "-trimpath", "-buildvcs=false", "-o", into}, flags, []string{"./cmd/bursar"})...)
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOPROXY=off", "GOFLAGS=-mod=readonly", "GOWORK=off")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build bursar: %w\n%s", err, bytes.TrimSpace(output))
	}
	return nil
}

// patience is how long a machine that is busy with other things may take for what takes a second or two.
const patience = 90 * time.Second

// pollEvery is how often a condition is looked at.
const pollEvery = 50 * time.Millisecond

// eventually waits until the condition holds, that is gives no error.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	again := time.NewTicker(pollEvery)
	defer again.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s: %v", patience, what, err)
		}
		select {
		case <-again.C:
		case <-t.Context().Done():
			t.Fatalf("%s: %v", what, errors.Join(err, t.Context().Err()))
		}
	}
}

// environment is this one's without what would lead bursar elsewhere.
func environment(more ...string) []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "BURSAR_") && !strings.HasPrefix(variable, "CONSUL_") && !strings.HasPrefix(variable, "PG") {
			kept = append(kept, variable)
		}
	}
	return append(kept, more...)
}

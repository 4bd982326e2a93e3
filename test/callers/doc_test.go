// Package callers is about the commands of users, many at a time: it runs the shipped programs, a
// coordinator and the agent of a host, and hundreds of `bursar run` of one ordinary user, as a
// shell loop starts them. All must end well, wait their turn in silence, leave nothing behind, and
// cost little memory while they wait.
//
// Tests need root: they play several users.
package callers

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bursar/bursar/test/proc"
)

var jobs = flag.Int("callers.jobs", 200, "how many jobs the loop of TestALoopOfJobsOfAnOrdinaryUserEndsWell has")

// patience is how long something may take on a busy machine.
const patience = 90 * time.Second

// program is the bursar under test, where every user can run it. TestMain sets it.
var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv(asCoordinator) != "" {
		return exitCode(serveCoordinator())
	}
	flag.Parse()
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "callers: this test plays several users: it needs root")
		return 1
	}
	dir, err := os.MkdirTemp("", "callers")
	if err == nil {
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "bursar")
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		err = proc.Build{Into: program}.Run(context.Background())
	}
	if exitCode(err) != 0 {
		return 1
	}
	return m.Run()
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "callers:", err)
	return 1
}

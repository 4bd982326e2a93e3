// Package chaos tests the real binary and real processes. It builds bursar once, starts it as a
// user would, starts engines that touch memory, fork and fill the page cache on command, and
// kills, stops, starves and misleads all of them. It checks the results from outside: by ledgers
// that the clients keep themselves, by the process table, and by `bursar audit`.
//
// It is for what needs a process. Rules of the ledger, of the tracker and of the store are tested
// in their packages, and their interleavings in test/sim. So is a clock that jumps: to set the
// time of day would set it for the whole machine, and time namespaces have no time of day of their
// own. The coordinator's tests give it a clock that jumps both ways.
//
// Tests run one after the other, because each wants the machine for itself. No test sleeps: it
// waits for what must come and gives up after a bounded time. Randomness comes from one seed,
// which is printed; -chaos.seed repeats it.
package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/pause"
	"github.com/bursar/bursar/test/proc"
)

var (
	seedFlag  = flag.Uint64("chaos.seed", 0, "seed of all randomness; 0 draws one")
	loadFlag  = flag.Duration("chaos.load", 30*time.Second, "how long the 200 clients work")
	killsFlag = flag.Int("chaos.kills", 20, "how often `bursar dev` is killed under load")
)

// executable is the bursar under test. TestMain sets it.
var executable string

func TestMain(m *testing.M) {
	if os.Getenv(engineVariable) != "" {
		playEngine(os.Stdin, os.Stdout)
		os.Exit(0)
	}
	flag.Parse()
	os.Exit(run(m))
}

// run builds the binary, under the race detector where the tests are, and runs the tests.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "bursar-chaos")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // the binary is for every user that a test becomes
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	executable = filepath.Join(dir, "bursar")
	if err := (proc.Build{Into: executable, Race: raceEnabled}).Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// randomness returns the test's own source, and prints how to repeat it.
func randomness(t *testing.T) (seed uint64, random *rand.Rand) {
	t.Helper()
	seed = *seedFlag
	if seed == 0 {
		seed = rand.Uint64N(1 << 32)
	}
	t.Logf("seed %d: repeat with -run '^%s$' -chaos.seed=%d", seed, t.Name(), seed)
	return seed, rand.New(rand.NewPCG(seed, 0))
}

// pollEvery is how often a test checks a condition.
const pollEvery = 5 * time.Millisecond

// eventually repeats check until it finds no fault, and returns how long that took.
func eventually(t *testing.T, within time.Duration, what string, check func() error) time.Duration {
	t.Helper()
	return proc.Eventually(t, within, pollEvery, what, check)
}

// always repeats check for that long, and fails at the first fault.
func always(t *testing.T, during time.Duration, what string, check func() error) {
	t.Helper()
	proc.Always(t, during, pollEvery, what, check)
}

// rest lets a client think, or chance choose a moment. It waits for no condition.
func rest(ctx context.Context, d time.Duration) { pause.For(d, ctx.Done(), nil) }

// upTo draws a duration below the limit.
func upTo(random *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(limit)))
}

// must returns the value, and fails the test for an error.
func must[T any](t *testing.T) func(value T, err error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

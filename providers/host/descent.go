package host

import (
	"fmt"
	"time"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// An engine that may create cgroups below its own can create any number, nested in any way. Three
// bounds limit the cost of looking at them. Memory and CPU time come from the engine's own cgroup
// and stay exact; only processes can be missed.
const (
	// mostCgroups is the largest number of cgroups visited below one engine's, deepestCgroup the
	// largest depth. A container engine in a service needs four levels.
	mostCgroups   = 256
	deepestCgroup = 16
	// descentTime is the time limit of one call for all engines. One cgroup takes about 15 µs.
	descentTime = 20 * time.Millisecond
)

// newDescent returns a bounded walk over the cgroups below those of engines.
func newDescent(s *scratch, now func() time.Time, most time.Duration) *cgroupfs.Walk {
	until := now().Add(most)
	return &cgroupfs.Walk{
		Read: s.read,
		Children: func(directory string) ([]string, error) {
			names, err := cgroupfs.Children(directory)
			if err != nil {
				return nil, fmt.Errorf("listing cgroups: %w", err)
			}
			return names, nil
		},
		Left: mostCgroups, Deepest: deepestCgroup, Late: func() bool { return now().After(until) },
	}
}

package host

import (
	"fmt"
	"time"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// An engine that may make cgroups below its own can make as many as it likes, one in the other.
// What a look at them may cost is bounded three times: memory and CPU time are the cgroup's own
// figures and stay exact, only processes can be missed.
const (
	// mostCgroups is how many below one engine's are looked at, deepestCgroup how far down. A
	// container engine in a service needs four levels.
	mostCgroups   = 256
	deepestCgroup = 16
	// descentTime is what one call may spend on them, for all engines. One takes some 15 µs.
	descentTime = 20 * time.Millisecond
)

// newDescent returns a look at what is below the cgroups of engines.
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

package yarn

import (
	"fmt"
	"time"

	"github.com/bursar/bursar/resource"
)

const (
	// A ResourceManager that becomes active knows no machines at first; they register with their
	// next heartbeat, within seconds. Until backPercent of them are back, or until backTime has
	// passed, its limits are too small and its counts incomplete.
	backPercent = 90
	backTime    = time.Minute
)

// serverRun tracks one run of a ResourceManager, and whether its figures are reliable.
type serverRun struct {
	incarnation string
	changed     time.Time // the change of run; valid while returning
	returning   bool      // its machines are coming back
	before      clusterSize
}

// change records the current run, and reports whether it differs from the one before. The first run
// is no change, because there is nothing to compare it with.
func (r *serverRun) change(incarnation string, now time.Time) bool {
	if r.incarnation == incarnation {
		return false
	}
	if r.incarnation != "" {
		r.changed, r.returning = now, true
	}
	r.incarnation = incarnation
	return true
}

// untrusted returns the reason why the figures are not reliable yet; empty: they are.
func (r *serverRun) untrusted(size clusterSize, now time.Time) string {
	switch {
	case size.empty():
		return "no machine of the cluster has reported yet"
	case r.returning && !size.covers(r.before) && now.Sub(r.changed) < backTime:
		return fmt.Sprintf("restarted or failed over: not all of its machines are back (%s of %s)", size, r.before)
	}
	r.returning, r.before = false, size
	return ""
}

// clusterSize is the size of a cluster.
type clusterSize struct {
	totals map[string]resource.Vector // by partition
	// memory and cpu are the totals of all partitions, in bytes and millicores.
	memory, cpu int64
	// noMachine says that the cluster has no active machine, whatever the totals are.
	noMachine bool
}

// sizeOf adds up the partitions.
func sizeOf(totals map[string]resource.Vector) clusterSize {
	made := clusterSize{totals: totals}
	for _, total := range totals {
		made.memory, made.cpu = made.memory+total.Memory(), made.cpu+total.CPU()
	}
	return made
}

func (c clusterSize) empty() bool { return c.noMachine || c.memory == 0 && c.cpu == 0 }

// covers reports whether the cluster is nearly as large as before, in memory and cpu.
func (c clusterSize) covers(before clusterSize) bool {
	enough := func(now, before int64) bool { return float64(now)*100 >= float64(before)*backPercent }
	return enough(c.memory, before.memory) && enough(c.cpu, before.cpu)
}

func (c clusterSize) String() string {
	return resource.FormatMemory(c.memory) + " and " + resource.FormatCPU(c.cpu) + " cores"
}

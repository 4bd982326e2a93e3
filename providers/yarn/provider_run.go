package yarn

import (
	"fmt"
	"time"

	"github.com/bursar/bursar/resource"
)

const (
	// A ResourceManager that begins to be active knows no machine; those come back with their next
	// heartbeat, within seconds. Until so many percent are back, or for so long, its limits are
	// too small and its counts incomplete.
	backPercent = 90
	backTime    = time.Minute
)

// serverRun is what is known of one run of a ResourceManager, and whether its figures can be
// counted on.
type serverRun struct {
	incarnation string
	changed     time.Time // when another one was before; meant while returning
	returning   bool      // its machines come back
	before      clusterSize
}

// change notes which run it is, and reports whether it is another one than before. The first run
// is no change: nothing is known of before.
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

// untrusted says why the figures are not to be counted on yet; empty: they are.
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

// clusterSize is how large a cluster is.
type clusterSize struct {
	totals map[string]resource.Vector // by partition
	// memory and cpu are of all partitions, in bytes and millicores.
	memory, cpu int64
	// noMachine says that the cluster counts no active machine, whatever the totals are.
	noMachine bool
}

// sizeOf adds up.
func sizeOf(totals map[string]resource.Vector) clusterSize {
	made := clusterSize{totals: totals}
	for _, total := range totals {
		made.memory, made.cpu = made.memory+total.Memory(), made.cpu+total.CPU()
	}
	return made
}

func (c clusterSize) empty() bool { return c.noMachine || c.memory == 0 && c.cpu == 0 }

// covers reports whether it is nearly as large as it was before, in both dimensions.
func (c clusterSize) covers(before clusterSize) bool {
	enough := func(now, before int64) bool { return float64(now)*100 >= float64(before)*backPercent }
	return enough(c.memory, before.memory) && enough(c.cpu, before.cpu)
}

func (c clusterSize) String() string {
	return resource.FormatMemory(c.memory) + " and " + resource.FormatCPU(c.cpu) + " cores"
}

package placement

import "math/bits"

// levels is the number of levels of memory and of cpu, so that one machine word has a bit for
// each.
const levels = 64

// The unit of a level, and the smallest step. Four steps per doubling follow, so a step is 14 to
// 25 % wide. Round numbers (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16 … GiB or cores) are edges: a
// request of a round number fits on all hosts of a level or on none. The last step begins at 3.5
// TiB and 14,336 cores.
const (
	memoryUnit = 32 << 20 // bytes
	cpuUnit    = 125      // thousandths of a core
)

func memoryLevel(bytes int64) int { return level(bytes / memoryUnit) }

func cpuLevel(millis int64) int { return level(millis / cpuUnit) }

// level never falls if units rise: a host on a higher level than the request's has more than is
// asked for.
func level(units int64) int {
	if units < 4 {
		return int(max(units, 0))
	}
	top := bits.Len64(uint64(units)) - 1
	return min(levels-1, (top-1)*4+int(units>>(top-2)&3))
}

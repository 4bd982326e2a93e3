package peak_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/agent/peak"
)

func TestPeaks(t *testing.T) {
	f := func(name string, seen peak.Seen, marks peak.Marks, want int64, source peak.Source) {
		t.Helper()
		if got, how := peak.Of(seen, marks); got != want || how != source {
			t.Errorf("%s: %d, %d; want %d, %d", name, got, how, want, source)
		}
	}
	seen := func(bytes, cache int64, processes int) peak.Seen {
		return peak.Seen{Bytes: bytes, CacheBytes: cache, Processes: processes}
	}
	f("nothing is known", peak.Seen{}, peak.Marks{}, 0, peak.Unknown)
	f("ticks alone", seen(300, 700, 3), peak.Marks{}, 300, peak.Ticks)

	// A cgroup of its own.
	f("a spike between two ticks", seen(8, 1, 1), peak.Marks{CgroupBytes: 409, CacheBytes: 1, ProcessBytes: 404}, 408, peak.Kernel)
	f("page cache of a file that was read", seen(3, 640, 2), peak.Marks{CgroupBytes: 690, CacheBytes: 687, ProcessBytes: 3}, 3, peak.Kernel)
	f("a file that was read and removed between two ticks", seen(3, 0, 2), peak.Marks{CgroupBytes: 690, ProcessBytes: 4}, 8, peak.Kernel)
	f("a spike, and page cache later", seen(8, 390, 1), peak.Marks{CgroupBytes: 400, CacheBytes: 390, ProcessBytes: 399, MappedBytes: 1}, 398, peak.Kernel)
	f("a spike of a pool", seen(80, 20, 5), peak.Marks{CgroupBytes: 900, CacheBytes: 20, ProcessBytes: 200}, 880, peak.Kernel)
	f("libraries that others had in memory", seen(50, 0, 1), peak.Marks{CgroupBytes: 55, ProcessBytes: 80}, 55, peak.Kernel)
	f("a large file that is mapped", seen(20, 700, 1), peak.Marks{CgroupBytes: 720, CacheBytes: 700, MappedBytes: 700, ProcessBytes: 725}, 25, peak.Kernel)
	f("ended before the first tick", peak.Seen{}, peak.Marks{CgroupBytes: 410, ProcessBytes: 415}, 410, peak.Kernel)
	f("a file of its own that was removed before its end", seen(256, 0, 1), peak.Marks{CgroupBytes: 461, ProcessBytes: 271, MappedBytes: 0}, 279, peak.Kernel)
	f("that, and what it has mapped is known", peak.Seen{Bytes: 256, MappedBytes: 15, Processes: 1}, peak.Marks{CgroupBytes: 461, ProcessBytes: 271}, 264, peak.Kernel)
	f("ended before the first tick, no process known", peak.Seen{}, peak.Marks{CgroupBytes: 410, CacheBytes: 10}, 400, peak.Kernel)

	// One that was moved: what it had before is charged elsewhere.
	f("more before the move", seen(500, 0, 1), peak.Marks{CgroupBytes: 100, Partial: true}, 500, peak.Ticks)
	f("a spike after the move", seen(8, 1, 1), peak.Marks{CgroupBytes: 400, Partial: true}, 399, peak.Kernel)

	// A large file came and went between two measurements. The marks of its processes tell, if they
	// are younger than the mark of the cgroup.
	moved := peak.Seen{Bytes: 126, Processes: 1, HighestBytes: 264, MarkBytes: 446, MappedBytes: 8}
	f("the mark is older than the last measurement", moved, peak.Marks{CgroupBytes: 446, Partial: true}, 264, peak.Kernel)
	f("the mark has grown since", moved, peak.Marks{CgroupBytes: 500, Partial: true}, 500, peak.Kernel)

	// None.
	f("the main process's mark", seen(8, 10, 1), peak.Marks{ProcessBytes: 410}, 400, peak.Kernel)
	f("one process, no more than was seen", seen(400, 10, 1), peak.Marks{ProcessBytes: 405}, 400, peak.Kernel)
	f("many processes at once", seen(900, 10, 9), peak.Marks{ProcessBytes: 110}, 900, peak.Ticks)
	f("its files alone", seen(3, 700, 1), peak.Marks{ProcessBytes: 702}, 3, peak.Kernel)

	f("killed at its limit", seen(60, 10, 1), peak.Marks{CgroupBytes: 70, CacheBytes: 60, LimitBytes: 70}, 70, peak.Limit)
}

// A large file that came and went is no memory of the engine, and a command that one measurement
// happened to find has not used so much. Processes that stay may have.
func TestACommandThatOneMeasurementFoundAllowsForNothing(t *testing.T) {
	marks := peak.Marks{CgroupBytes: 446, ProcessBytes: 264}
	for _, test := range []struct {
		processes []int
		want      int64
	}{
		{[]int{2}, 446},
		{[]int{2, 1, 1}, 272},
		{[]int{1, 2, 1, 3, 1}, 272},
		{[]int{1, 2, 2, 1}, 446},
		{[]int{0, 1, 2}, 272},
	} {
		var seen peak.Seen
		for _, count := range test.processes {
			seen.Add(peak.Seen{Bytes: 126, Processes: count})
		}
		if got, _ := peak.Of(seen, marks); got != test.want {
			t.Errorf("%v processes: a peak of %d, want %d", test.processes, got, test.want)
		}
	}
}

// A peak is at least as high as every measurement, and at most as high as the highest charge,
// whatever the marks are.
func TestAPeakIsBetweenWhatWasSeenAndWhatWasCharged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(name string) int64 { return rapid.Int64Range(0, 1<<62).Draw(t, name) }
		seen := peak.Seen{Bytes: amount("seen"), CacheBytes: amount("cache"), Processes: rapid.IntRange(1, 1<<30).Draw(t, "processes")}
		marks := peak.Marks{
			CgroupBytes: amount("charged"), CacheBytes: amount("cache at the end"), MappedBytes: amount("mapped"), ProcessBytes: amount("process"),
			Partial: rapid.Bool().Draw(t, "partial"),
		}
		got, source := peak.Of(seen, marks)
		if got < seen.Bytes || source == peak.Unknown {
			t.Fatalf("%d, %d, less than was seen", got, source)
		}
		if most := max(seen.Bytes, marks.CgroupBytes, marks.ProcessBytes); got > most {
			t.Fatalf("%d, more than %d", got, most)
		}
		if most := max(seen.Bytes, marks.CgroupBytes); marks.CgroupBytes > 0 && !marks.Partial && got > most {
			t.Fatalf("%d, more than %d, which were charged", got, most)
		}
	})
}

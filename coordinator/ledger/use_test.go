package ledger

import (
	"testing"
	"time"

	"github.com/bursar/bursar/resource"
)

func TestPeaksOfOlderAndNewerAgents(t *testing.T) {
	memory := func(bytes int64) resource.Vector { return resource.Vector{}.WithMemory(bytes) }
	var none resource.Vector
	type report struct {
		measured, peak resource.Vector
		source         PeakSource
	}
	for name, test := range map[string]struct {
		reports []report
		memory  int64
		source  PeakSource
	}{
		"an older agent without peaks":           {[]report{{memory(5), none, 0}, {memory(3), none, 0}}, 5, PeakUnknown},
		"page cache is no peak":                  {[]report{{memory(700), memory(8), PeakTicks}}, 8, PeakTicks},
		"the kernel's mark at the end":           {[]report{{memory(9), memory(8), PeakTicks}, {none, memory(400), PeakKernel}}, 400, PeakKernel},
		"the same at the end":                    {[]report{{memory(9), memory(8), PeakTicks}, {none, memory(8), PeakKernel}}, 8, PeakKernel},
		"an agent that began again":              {[]report{{memory(9), memory(8), PeakKernel}, {memory(2), memory(2), PeakTicks}}, 8, PeakKernel},
		"an end that says nothing":               {[]report{{memory(9), memory(8), PeakTicks}, {none, none, PeakUnknown}}, 8, PeakTicks},
		"a limit that is lower than what it had": {[]report{{memory(90), memory(80), PeakTicks}, {none, memory(64), PeakLimit}}, 80, PeakTicks},
	} {
		var a Allocation
		for _, r := range test.reports {
			a.notePeak(r.measured, r.peak, r.source)
		}
		if a.Peak.Memory != test.memory || a.Peak.Source != test.source {
			t.Errorf("%s: %+v; want %d, %d", name, a.Peak, test.memory, test.source)
		}
	}
	var a Allocation
	for _, used := range []time.Duration{3, 7, 0, 5} {
		a.noteCPUTime(used)
	}
	if a.CPUTime != 7 {
		t.Errorf("processor time %d went back", a.CPUTime)
	}
}

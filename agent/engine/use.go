package engine

import (
	"context"

	"github.com/bursar/bursar/agent/contain"
	"github.com/bursar/bursar/agent/peak"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// marks reads the kernel's figures of an engine that has ended. exit and lack are how it ended, as
// LackOfMemory returns them. process are the figures of its main process.
func (s *Engines) marks(ctx context.Context, e host.Engine, exit *bursarv1.ExitStatus, lack contain.Lack, process peak.Marks) peak.Marks {
	told := s.meter.Marks(e)
	marks := process
	marks.CgroupBytes, marks.CacheBytes, marks.MappedBytes, marks.Partial = told.MostBytes, told.CacheBytes, told.MappedBytes, told.Moved
	if !told.Moved {
		marks.CPUTime = max(marks.CPUTime, told.CPUTime)
	}
	if exit.GetOutOfMemory() || lack.Killed || lack.Words != "" {
		marks.LimitBytes = s.cgroups.LimitReached(ctx, e.ID)
	}
	return marks
}

// processMarks are the figures that the launcher of an engine gives of its main process. A caller
// may say anything: no process had more than the machine has, in bytes.
func processMarks(request *bursarv1.ReleaseRequest, machine int64) peak.Marks {
	var marks peak.Marks
	if most := request.GetMeasuredPeak().GetMemoryBytes(); most > 0 && most <= machine {
		marks.ProcessBytes = most
	}
	if used := request.GetCpuTime(); used.IsValid() {
		marks.CPUTime = max(0, used.AsDuration())
	}
	return marks
}

// sayUse puts the engine's use into a release, as the agent knows it. It replaces the figures of
// the caller.
func sayUse(request *bursarv1.ReleaseRequest, use tracker.Use) {
	request.MeasuredPeak, request.MeasuredPeakSource, request.CpuTime = use.Peak, use.Source, use.CPUTime
}

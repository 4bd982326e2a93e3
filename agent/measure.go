package agent

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

const (
	// measureGap is the least time between two measurements, however much happens: a pass over the
	// process table of a busy host takes some 10 ms.
	measureGap = 250 * time.Millisecond
	// settleTime lets an engine that has just started or ended become what is worth measuring: one
	// that was confirmed gets to touch its first memory, and the launcher of one that ended gets
	// to release it with its exit status.
	settleTime = 500 * time.Millisecond
	// degradedQuiet is how long a source has to be good before its next fault is logged again. The
	// figures of some containers are odd in every second look.
	degradedQuiet = 10 * time.Minute
)

// measureLoop measures every tick, and sooner if something happened.
func (a *Agent) measureLoop(ctx context.Context) error {
	for {
		now := time.Now()
		a.measureDue.set(now.Add(a.settings().Tick), now.Add(measureGap))
		if a.again > 0 {
			a.measureIn(a.again)
			a.again = 0
		}
		if !a.measureDue.wait(ctx) {
			return nil
		}
		a.loops.measure.do(func() { a.measure(ctx) })
	}
}

// measureAgain brings the next measurement forward while one is made. Only the measuring loop calls
// it.
func (a *Agent) measureAgain(d time.Duration) {
	if a.again == 0 || d < a.again {
		a.again = d
	}
}

// measureIn brings the next measurement forward.
func (a *Agent) measureIn(d time.Duration) { a.measureDue.noLaterThan(time.Now().Add(d)) }

// measure measures the machine and its engines once, and acts on what it finds.
func (a *Agent) measure(ctx context.Context) {
	began := time.Now()
	a.countables.use(began, a.settings().countables) // a reload may have changed them
	a.health.use(began, a.settings().health)
	a.direct.Reap()
	a.watch(ctx)
	engines, list := a.toMeasure()
	usages := a.deps.Meter.Engines(ctx, list)
	sampled := time.Now()
	sample := a.deps.Meter.Sample(ctx)
	if a.ownMeter {
		sample.MemorySafetyBytes = max(0, a.settings().safety) // a reload may have changed it
	}
	capacity, capacityErr := a.deps.Meter.Capacity(ctx)
	if ctx.Err() != nil {
		return // what was cut short says nothing
	}
	if capacityErr != nil {
		a.log.Warn("the machine's capacity is not known: the last one stays", "error", capacityErr)
	}
	counts, problems := a.countables.counts(time.Now())
	disks, short, oddDisks := a.workDirs.measure(ctx, a.settings().workDirs)
	for path, odd := range oddDisks {
		if sample.Degraded == nil {
			sample.Degraded = make(map[string]string)
		}
		sample.Degraded["disk "+path] = odd
	}
	measurement := tracker.Measurement{Sample: sampleMessage(sample, usages, problems)}
	measurement.Sample.Notes = a.notes(began, usages)
	measurement.Sample.Disks, measurement.Sample.Refusal = disks, joined(a.socket.Check(ctx), a.checkState(), checkDescriptors(), short, a.health.problem())
	for i := range usages {
		measurement.Usages = append(measurement.Usages, a.usage(ctx, engines[i], list[i], usages[i]))
	}
	var ends []*bursarv1.EngineEnd
	limits := a.settings().limits(capacity.MemoryBytes, capacity.CPUMillis, counts)
	if capacityErr == nil {
		a.warnOfProtected(limits)
	}
	a.locked(func(t *tracker.Tracker) {
		if capacityErr == nil {
			t.SetCapacity(limits)
		}
		t.SetPolicies(a.settings().policies, a.settings().Tick)
		for i, e := range engines {
			e.orphans, e.others = nil, usages[i].Processes > 1
			if left := usages[i].Orphans; len(left) > 0 {
				e.orphans = &orphans{of: process.Ref{PID: list[i].PID, StartTime: list[i].StartTime}, list: left}
			}
		}
		ends = t.Measure(sampled, measurement)
		close(a.measured)
		a.measured = make(chan struct{})
	})
	a.metrics.measured(time.Since(began), measurement.Sample.GetDegraded(), len(ends))
	a.logDegraded(began, sample.Degraded)
	a.measuredAt.now()
	for _, end := range ends {
		a.log.Info("an engine has ended", "allocation_id", end.GetAllocationId(), "reason", end.GetReason(), "exit_status", end.GetExitStatus())
	}
	a.cgroups.ScheduleAll()
	a.actOnOverUse(ctx)
	a.endUnconfirmedKeepers(ctx, began)
	a.cleanRecords(ctx, began)
	a.afterChange(ctx)
}

// toMeasure returns the engines that the tracker lists, and how the meter is to find each.
func (a *Agent) toMeasure() ([]*engine, []host.Engine) {
	var listed []tracker.Engine
	var engines []*engine
	var handles []*process.Handle
	a.locked(func(t *tracker.Tracker) {
		listed = t.Engines()
		a.engines.removeEnded(t)
		for _, l := range listed {
			e := a.engines.enter(l.ID)
			engines = append(engines, e)
			if e.handle != nil {
				handles = append(handles, e.handle)
			}
		}
	})
	for _, handle := range handles { // without the lock: older kernels have a file read for each
		handle.Touch() // what an engine leaves behind is known by having started before
	}
	list := make([]host.Engine, len(listed))
	for i, l := range listed {
		name := l.Process.GetCgroup()
		list[i] = host.Engine{
			ID: l.ID, PID: l.Process.GetPid(), StartTime: l.Process.GetStartTime(),
			Reaper: host.Reaper{PID: l.Process.GetReaperPid(), StartTime: l.Process.GetReaperStartTime()}, Left: orphansOf(l.Left),
			Cgroup: name, Moved: !cgroup.Whole(name), Given: name != "" && !a.cgroups.Made(l.ID, name), User: l.Process.Uid, //nolint:protogetter // nil says that it is not known
		}
	}
	return engines, list
}

// logDegraded logs each source that cannot be read, or has odd figures, once: one that is so now
// and then is not logged again until it has been good for degradedQuiet. Countables log for
// themselves.
func (a *Agent) logDegraded(now time.Time, degraded map[string]string) {
	for _, source := range slices.Sorted(maps.Keys(degraded)) {
		if _, logged := a.degraded[source]; !logged {
			a.log.Warn("a source of measurements cannot be read, or has odd figures", "source", source, "error", degraded[source])
		}
		a.degraded[source] = now
	}
	for _, source := range slices.Sorted(maps.Keys(a.degraded)) {
		if now.Sub(a.degraded[source]) >= degradedQuiet {
			delete(a.degraded, source)
			a.log.Info("a source of measurements is good again", "source", source)
		}
	}
}

// afterChange does what a change of the tracker may ask for: it watches engines, sends a Sync, and
// has the state stored.
func (a *Agent) afterChange(ctx context.Context) {
	a.watch(ctx)
	urgent := false
	a.locked(func(t *tracker.Tracker) { urgent = t.Urgent() })
	if urgent {
		a.syncDue.noLaterThan(time.Now())
	}
	a.scheduleSave()
}

// usage returns what was measured of an engine, as the tracker takes it. Only the measuring loop
// calls it.
func (a *Agent) usage(ctx context.Context, e *engine, measured host.Engine, u host.Usage) tracker.Usage {
	usage := tracker.Usage{
		ID: measured.ID, PID: measured.PID, StartTime: measured.StartTime,
		MemoryBytes: u.MemoryBytes, UnreclaimableBytes: u.UnreclaimableBytes, UnsureBytes: u.UnsureBytes,
		PeakBytes: u.PeakBytes, CacheBytes: u.CacheBytes, MappedBytes: u.MappedBytes, Processes: u.Processes,
		CPUMillis: u.CPUMillis, CPUTime: u.CPUTime,
		Partial:  u.Err != nil,
		Orphaned: !u.Alive && u.Processes > 0,
		Left:     remembered(u),
	}
	if usage.Orphaned {
		usage.LeaderEnd = a.leaderEnd(e, measured.ID)
	}
	if !u.Alive && u.Processes == 0 && !a.watchedRuns(measured) {
		usage.Ended = a.certain(e, u.Err) && !a.awaitsRecord(e, measured.ID)
	} else {
		e.doubts = 0
	}
	switch {
	case usage.Ended:
		end := a.howEnded(ctx, measured)
		usage.Exit, usage.Reason, usage.ErrorOutput, usage.LeaderEnd, usage.Marks = end.exit, end.reason, end.errorOutput, end.leader, end.marks
	case u.Err != nil:
		if text := u.Err.Error(); e.partial != text {
			e.partial = text
			a.log.Warn("an engine could not be measured in full", "allocation_id", measured.ID, "error", text)
		}
	case usage.LeaderEnd != nil && !e.orphaned:
		e.orphaned = true
		a.log.Warn("an engine's main process has ended and others live on: it keeps its allocation until they end, or it is stopped",
			"allocation_id", measured.ID, "processes", u.Processes, "exit_status", usage.LeaderEnd.GetExitStatus())
	}
	if u.Err == nil {
		e.partial = ""
	}
	return usage
}

// watchedRuns reports whether the agent watches an engine's process by a pidfd that says that the
// process runs. The process table may not show it.
func (a *Agent) watchedRuns(e host.Engine) bool {
	var handle *process.Handle
	a.locked(func(*tracker.Tracker) {
		if known := a.engines.find(e.ID); known != nil {
			handle = known.handle
		}
	})
	return handle != nil && handle.Ref() == process.Ref{PID: e.PID, StartTime: e.StartTime} && handle.Runs()
}

// certain reports whether an engine of which no process was found has ended. If something could
// not be read, it must be found so twice in a row.
func (a *Agent) certain(e *engine, err error) bool {
	e.doubts++
	if err == nil || e.doubts > 1 {
		return true
	}
	a.measureAgain(measureGap)
	return false
}

package agent

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bursar/bursar/agent/engine"
	"github.com/bursar/bursar/agent/machine"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// degradedQuiet is how long a source has to be good before its next fault is logged again. The
// figures of some containers are odd in every second look.
const degradedQuiet = 10 * time.Minute

// measureLoop measures every tick, and sooner if something happened.
func (a *Agent) measureLoop(ctx context.Context) error {
	for {
		now := time.Now()
		a.measureDue.Set(now.Add(a.settings().Tick), now.Add(engine.MeasureGap))
		if next := a.engines.MeasureAgain(); next > 0 {
			a.measureDue.In(next)
		}
		if !a.measureDue.Wait(ctx) {
			return nil
		}
		a.loops.measure.Do(func() { a.measure(ctx) })
	}
}

// measure measures the machine and its engines once, and acts on the result.
func (a *Agent) measure(ctx context.Context) {
	began := time.Now()
	a.countables.Use(began, a.settings().countables) // a reload may have changed them
	a.health.Use(began, a.settings().health)
	a.direct.Reap()
	a.engines.Watch(ctx)
	pass := a.engines.BeginPass()
	usages := a.deps.Meter.Engines(ctx, pass.Engines)
	sampled := time.Now()
	sample := a.deps.Meter.Sample(ctx)
	if a.ownMeter {
		sample.MemorySafetyBytes = max(0, a.settings().safety) // a reload may have changed it
	}
	capacity, capacityErr := a.deps.Meter.Capacity(ctx)
	if ctx.Err() != nil {
		return // a measurement that was cut short says nothing
	}
	if capacityErr != nil {
		a.log.Warn("the machine's capacity is not known: the last one stays", "error", capacityErr)
	}
	counts, problems := a.countables.Counts(time.Now())
	disks, short, oddDisks := a.workDirs.Measure(ctx, a.settings().workDirs)
	for path, odd := range oddDisks {
		if sample.Degraded == nil {
			sample.Degraded = make(map[string]string)
		}
		sample.Degraded["disk "+path] = odd
	}
	measurement := tracker.Measurement{Sample: machine.SampleMessage(sample, usages, problems)}
	measurement.Sample.Notes = a.notes(began, usages)
	measurement.Sample.Disks, measurement.Sample.Refusal = disks, machine.Joined(a.socket.Check(ctx), a.state.Check(), machine.CheckDescriptors(), short, a.health.Problem())
	measurement.Usages = a.engines.Usages(ctx, pass, usages)
	var ends []*bursarv1.EngineEnd
	limits := a.settings().limits(capacity.MemoryBytes, capacity.CPUMillis, counts)
	if capacityErr == nil {
		a.warnOfProtected(limits)
	}
	a.state.Locked(func(t *tracker.Tracker) {
		if capacityErr == nil {
			t.SetCapacity(limits)
		}
		t.SetPolicies(a.settings().policies, a.settings().Tick)
		pass.NoteFound(usages)
		ends = t.Measure(sampled, measurement)
		a.state.Measured.Happened()
	})
	a.metrics.measured(time.Since(began), measurement.Sample.GetDegraded(), len(ends))
	a.logDegraded(began, sample.Degraded)
	a.measuredAt.Now()
	a.engines.Passed(ctx, began, ends)
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

package tracker

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/agent/peak"
	"github.com/bursar/bursar/agent/policy"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Measurement is one measurement of the machine and its engines. Use is measured before the
// machine, so that memory which an engine takes in between counts twice rather than not at all.
type Measurement struct {
	Sample *bursarv1.HostSample
	Usages []Usage
}

// Usage is what one engine used.
type Usage struct {
	ID string
	// PID and StartTime say which process was measured: the allocation may have another by now.
	PID       int32
	StartTime uint64
	// MemoryBytes is all memory held, UnreclaimableBytes the part that the kernel cannot take
	// back.
	MemoryBytes        int64
	UnreclaimableBytes int64
	// UnsureBytes is the part of UnreclaimableBytes that may not be the engine's; a policy does not
	// count it.
	UnsureBytes int64
	// PeakBytes is the most of it since the last sample, CacheBytes the page cache, and MappedBytes
	// the files that its main process had mapped when that was read last.
	PeakBytes, CacheBytes, MappedBytes int64
	// HighestBytes and MarkBytes are those of peak.Seen.
	HighestBytes, MarkBytes int64
	Processes               int
	// CPUMillis is the mean since the last sample, CPUTime all that the engine has used, as far as
	// this incarnation of the agent knows.
	CPUMillis int64
	CPUTime   time.Duration
	// Partial: a part of it could not be measured. It used that much or more.
	Partial bool
	// Orphaned: the engine's process has ended, others that it started are left. Their memory is
	// not free: they keep the engine's entitlement until they are gone, or it is released.
	Orphaned bool
	// LeaderEnd is when and how the engine's process ended, if others of it lived on for more than
	// a moment. The policy is left to the tracker.
	LeaderEnd *bursarv1.LeaderEnd
	// Left are the processes that have to be remembered, by pid.
	Left []Left
	// Ended: the engine's process has ended and none is left. Exit says how its own process ended,
	// if that is known, Reason how the engine did, and ErrorOutput what it wrote last.
	Ended               bool
	Exit                *bursarv1.ExitStatus
	Reason, ErrorOutput string
	// NotBegun: nothing of it was executed.
	NotBegun bool
	// Marks are what the kernel says at the end.
	Marks peak.Marks

	// over is what of it is beyond the entitlement, by all samples up to this one.
	over []policy.OverUse
}

// ProcessEnded is the reason of an end of which nothing else is known.
const ProcessEnded = "process ended"

// cpuNoise is the change in an engine's CPU use, in thousandths of a core, that is not worth a
// report.
const cpuNoise = 10

// cpuTimeStep is how much processor time a report waits for that has nothing else to say.
const cpuTimeStep = 30 * time.Second

// Fresh reports whether the last sample is new enough to decide on a grant.
func (t *Tracker) Fresh(now time.Time) bool {
	return t.sample != nil && now.Sub(t.sampled) <= freshFor(t.tick)
}

// Measure takes a measurement that was made at now, and returns the engines that ended by it.
func (t *Tracker) Measure(now time.Time, m Measurement) []*bursarv1.EngineEnd {
	t.sample, t.sampled, t.available, t.notices = m.Sample, now, nil, nil
	judged := make(map[*entry]bool, len(m.Usages))
	var ends []*bursarv1.EngineEnd
	for _, usage := range m.Usages {
		e := t.entries[usage.ID]
		if e == nil || !e.tracked() || !usage.of(e.grant.GetProcess()) {
			continue
		}
		if usage.Ended {
			reason := usage.Reason
			if reason == "" {
				reason = ProcessEnded
			}
			e.noteCPUTime(usage.CPUTime)
			last := e.lastUse(usage.Marks)
			end := &bursarv1.EngineEnd{
				AllocationId: usage.ID, EndTime: timestamppb.New(now), ExitStatus: usage.Exit, Reason: reason, ErrorOutput: usage.ErrorOutput,
				MeasuredPeak: last.Peak, MeasuredPeakSource: last.Source, CpuTime: last.CPUTime,
				NotBegun: usage.NotBegun,
			}
			t.noteLeaderEnd(e, &usage)
			end.LeaderEnd = e.over.end
			if e.usage != nil {
				end.Measured = e.usage.measured()
			}
			t.end(e, end)
			ends = append(ends, end)
			continue
		}
		if e.usage == nil && e.reported == nil {
			t.urgent = true // users want to see what the new engine uses
		}
		e.peak.seen.Add(peak.Seen{
			Bytes:      max(usage.UnreclaimableBytes, usage.PeakBytes) - usage.UnsureBytes,
			CacheBytes: usage.CacheBytes, MappedBytes: usage.MappedBytes, Processes: usage.Processes,
			HighestBytes: usage.HighestBytes, MarkBytes: usage.MarkBytes,
		})
		e.peak.cpuMillis = max(e.peak.cpuMillis, usage.CPUMillis)
		e.noteCPUTime(usage.CPUTime)
		t.noteLeaderEnd(e, &usage)
		t.judge(now, e, &usage)
		judged[e] = true
	}
	for _, e := range t.inOrder() {
		if e.tracked() && !judged[e] {
			t.judge(now, e, nil)
		}
	}
	return ends
}

// Sample is the machine as last measured; nil before the first time.
func (t *Tracker) Sample() *bursarv1.HostSample { return t.sample }

// of reports whether this is what was measured of the process.
func (u *Usage) of(p *bursarv1.Process) bool {
	return u.PID == p.GetPid() && u.StartTime == p.GetStartTime()
}

func (u *Usage) measured() *bursarv1.Resource {
	return &bursarv1.Resource{MemoryBytes: &u.MemoryBytes, CpuMillis: &u.CPUMillis}
}

// differs reports whether the coordinator should hear of the change. All of memory counts, because
// the headroom that the coordinator computes must be that of the sample it comes with.
func (u *Usage) differs(reported *Usage) bool {
	if reported == nil {
		return true
	}
	cpu := u.CPUMillis - reported.CPUMillis
	return u.MemoryBytes != reported.MemoryBytes || u.CPUTime-reported.CPUTime >= cpuTimeStep || u.UnreclaimableBytes != reported.UnreclaimableBytes ||
		cpu > cpuNoise || cpu < -cpuNoise || (u.CPUMillis == 0) != (reported.CPUMillis == 0) ||
		!slices.EqualFunc(u.over, reported.over, policy.OverUse.Equal)
}

// SetAvailable takes what is available at this moment, in bytes: grants are decided by that, and
// not by a sample that may be a tick old. What engines use is still the sample's, so it counts
// only if it is less than the sample says.
func (t *Tracker) SetAvailable(available int64) { t.available = &available }

// Headroom is the memory in bytes that the last sample, and the last SetAvailable since, leave for
// new grants: available - safety - what was promised and is not touched yet. Below zero, more was
// promised than there is. It is unknown before the first sample, and if the sample could not tell.
func (t *Tracker) Headroom() (bytes int64, known bool) { return t.headroomWithout(nil) }

// headroomWithout leaves out the promise to one entry.
func (t *Tracker) headroomWithout(except *entry) (bytes int64, known bool) {
	if t.sample == nil || t.sample.MemoryAvailableBytes == nil {
		return 0, false
	}
	headroom := t.sample.GetMemoryAvailableBytes() - t.sample.GetMemorySafetyBytes()
	if t.available != nil {
		headroom = min(headroom, *t.available-t.sample.GetMemorySafetyBytes())
	}
	headroom -= t.sums.promised
	if except != nil {
		headroom += except.counted.promised
	}
	return headroom, true
}

// AwaitsRoom reports whether a grant would be refused for lack of memory, by what the last answer
// to a Sync said, which is older than the grant: allocations may have ended since.
func (t *Tracker) AwaitsRoom(grant *bursarv1.Allocation) bool {
	headroom, known := t.Headroom()
	asked := grant.GetEntitled().GetMemoryBytes()
	awaits := known && t.entries[grant.GetId()] == nil && grant.GetRevision() > t.seen && asked != 0 && asked > headroom && t.closedFor(true) == ""
	t.refusing = t.refusing || awaits
	return awaits
}

// promised is the memory that the allocation may still touch beyond what the sample showed: all of
// it if it is newer than the sample, or nothing of it was measured. Page cache is not touched
// memory, as the kernel takes it back for others.
func (e *entry) promised() int64 {
	promise := e.grant.GetEntitled().GetMemoryBytes()
	if e.usage != nil {
		promise -= e.usage.UnreclaimableBytes
	}
	return max(0, promise)
}

// freshFor is how long a sample can be the base of a last word: the time to the next, and as much
// again for one that is slow.
func freshFor(tick time.Duration) time.Duration {
	const most, slow = 30 * time.Second, time.Second
	if tick == 0 {
		return most
	}
	return min(most, 2*tick+slow)
}

// lastWord checks a new grant against the newest sample, which the coordinator may not have seen
// when it granted, and refuses it if the memory is not there, or if the host refuses new engines.
// It reports whether the grant stands.
func (t *Tracker) lastWord(now time.Time, e *entry) bool {
	asked := e.grant.GetEntitled().GetMemoryBytes()
	if asked == 0 && t.sample.GetRefusal() == "" {
		return true
	}
	headroom, known := t.headroomWithout(e)
	fresh := known && t.Fresh(now)
	why := t.closedFor(fresh)
	if why == "" && asked <= headroom {
		return true
	}
	e.phase, e.refusal, e.sentIn = vetoed, Refusal{Reason: why}, 0
	t.count(e)
	if fresh {
		e.refusal.Headroom = max(0, headroom)
	}
	return false
}

// closedFor says why the host takes no grants now; empty: it does.
func (t *Tracker) closedFor(fresh bool) string {
	switch refusal := t.sample.GetRefusal(); {
	case refusal != "":
		return refusal
	case !fresh:
		return "no fresh measurement of its memory"
	case t.sample.GetPressure():
		return "under memory pressure"
	}
	return ""
}

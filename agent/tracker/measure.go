package tracker

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/agent/peak"
	"github.com/bursar/bursar/agent/policy"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Measurement is one measurement of the machine and its engines. The engines are measured before
// the machine, so that memory which an engine takes in between counts twice rather than not at all.
type Measurement struct {
	Sample *bursarv1.HostSample
	Usages []Usage
}

// Usage is the measured use of one engine.
type Usage struct {
	ID string
	// PID and StartTime identify the measured process: the allocation may have another one by now.
	PID       int32
	StartTime uint64
	// MemoryBytes is all memory held, UnreclaimableBytes the part that the kernel cannot take
	// back.
	MemoryBytes        int64
	UnreclaimableBytes int64
	// UnsureBytes is the part of UnreclaimableBytes that may belong to another engine. Policies do
	// not count it.
	UnsureBytes int64
	// PeakBytes is the highest UnreclaimableBytes since the last sample, CacheBytes the page cache,
	// and MappedBytes the files that its main process had mapped at the last reading of its maps.
	PeakBytes, CacheBytes, MappedBytes int64
	// HighestBytes and MarkBytes are those of peak.Seen.
	HighestBytes, MarkBytes int64
	Processes               int
	// CPUMillis is the mean since the last sample. CPUTime is the engine's total, as far as this
	// incarnation of the agent knows it.
	CPUMillis int64
	CPUTime   time.Duration
	// Partial: some processes could not be measured. The engine used that much or more.
	Partial bool
	// Orphaned: the engine's process has ended, but processes that it started live on. Their memory
	// is not free: they keep the engine's entitlement until they end, or the allocation is
	// released.
	Orphaned bool
	// LeaderEnd is when and how the engine's process ended, if other processes of it lived on for
	// more than a moment. The tracker fills in the policy.
	LeaderEnd *bursarv1.LeaderEnd
	// Left are the processes to remember, by pid.
	Left []Left
	// Ended: no process of the engine is left. Exit is the status of its main process, if known,
	// Reason the reason of the engine's end, and ErrorOutput its last output.
	Ended               bool
	Exit                *bursarv1.ExitStatus
	Reason, ErrorOutput string
	// NotBegun: the engine's program was not executed.
	NotBegun bool
	// Marks are the kernel's counters at the end.
	Marks peak.Marks

	// over is the over-use by all samples up to this one.
	over []policy.OverUse
}

// ProcessEnded is the reason of an end about which nothing else is known.
const ProcessEnded = "process ended"

// cpuNoise is the largest change of an engine's CPU use, in thousandths of a core, that is not
// reported.
const cpuNoise = 10

// cpuTimeStep is the processor time after which an engine is reported that has no other change.
const cpuTimeStep = 30 * time.Second

// Fresh reports whether the last sample is new enough to decide on a grant.
func (t *Tracker) Fresh(now time.Time) bool {
	return t.sample != nil && now.Sub(t.sampled) <= freshFor(t.tick)
}

// Measure applies a measurement that was made at now, and returns the ends of engines in it.
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
			t.urgent = true // users want to see the use of the new engine
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

// Sample returns the last sample of the machine; nil before the first one.
func (t *Tracker) Sample() *bursarv1.HostSample { return t.sample }

// of reports whether the usage is that of this process.
func (u *Usage) of(p *bursarv1.Process) bool {
	return u.PID == p.GetPid() && u.StartTime == p.GetStartTime()
}

func (u *Usage) measured() *bursarv1.Resource {
	return &bursarv1.Resource{MemoryBytes: &u.MemoryBytes, CpuMillis: &u.CPUMillis}
}

// differs reports whether the change must be reported. Each change of memory must, because the
// coordinator computes the headroom from the sample in the same report.
func (u *Usage) differs(reported *Usage) bool {
	if reported == nil {
		return true
	}
	cpu := u.CPUMillis - reported.CPUMillis
	return u.MemoryBytes != reported.MemoryBytes || u.CPUTime-reported.CPUTime >= cpuTimeStep || u.UnreclaimableBytes != reported.UnreclaimableBytes ||
		cpu > cpuNoise || cpu < -cpuNoise || (u.CPUMillis == 0) != (reported.CPUMillis == 0) ||
		!slices.EqualFunc(u.over, reported.over, policy.OverUse.Equal)
}

// SetAvailable sets the memory that is available at this moment, in bytes. It is for decisions on
// grants, because the sample may be a tick old. The use of engines is still the sample's, so the
// value counts only if it is lower than the sample's.
func (t *Tracker) SetAvailable(available int64) { t.available = &available }

// Headroom is the memory in bytes for new grants, by the last sample and the last SetAvailable
// since: available - safety - promised memory that is not touched yet. Below zero, the promises
// exceed the memory. It is unknown before the first sample, and if the sample has no available
// memory.
func (t *Tracker) Headroom() (bytes int64, known bool) { return t.headroomWithout(nil) }

// headroomWithout is Headroom without the promise to one entry.
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

// AwaitsRoom reports whether the host would refuse a grant for lack of memory although allocations
// may have ended since: the last answer to a Sync is older than the grant.
func (t *Tracker) AwaitsRoom(grant *bursarv1.Allocation) bool {
	headroom, known := t.Headroom()
	asked := grant.GetEntitled().GetMemoryBytes()
	awaits := known && t.entries[grant.GetId()] == nil && grant.GetRevision() > t.seen && asked != 0 && asked > headroom && t.closedFor(true) == ""
	t.refusing = t.refusing || awaits
	return awaits
}

// promised is the memory that the allocation may still touch beyond its use in the sample: all of
// its entitlement if it is newer than the sample, or was not measured. Page cache is not touched
// memory, as the kernel takes it back for others.
func (e *entry) promised() int64 {
	promise := e.grant.GetEntitled().GetMemoryBytes()
	if e.usage != nil {
		promise -= e.usage.UnreclaimableBytes
	}
	return max(0, promise)
}

// freshFor is how long a sample is good for a final check of a grant: the time to the next sample,
// and as much again for a slow one.
func freshFor(tick time.Duration) time.Duration {
	const most, slow = 30 * time.Second, time.Second
	if tick == 0 {
		return most
	}
	return min(most, 2*tick+slow)
}

// lastWord checks a new grant against the newest sample, which the coordinator may not have had. It
// refuses the grant if there is not enough memory, or if the host refuses new engines. It reports
// whether the grant stands.
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

// closedFor returns the reason why the host takes no grants now; empty if it takes them.
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

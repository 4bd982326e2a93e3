package tracker

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/policy"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// fullEvery is how often a Sync reports all engines and asks for all grants, so that no drift
	// stays.
	fullEvery = 10 * time.Minute
	// mostResyncAfter bounds how long a coordinator can put off a registration. It takes a host for
	// lost after 5 min without one.
	mostResyncAfter = 2 * time.Minute
	// defaultInterval is the time between two Syncs until a coordinator sets it.
	defaultInterval = 5 * time.Second
)

// Host is the agent's announcement of its machine.
type Host struct {
	ID      string
	Address string
	Labels  map[string]string
	// Capacity is the host's whole capacity, Protected the part of it that is never granted.
	Capacity  *bursarv1.Resource
	Protected *bursarv1.Resource
	BootID    string
	// MachineID and PIDNamespace are as in a RegisterRequest.
	MachineID, PIDNamespace string
	Version                 string
	// Incarnation must grow with each start.
	Incarnation uint64
}

// Tracker holds the agent's knowledge of its allocations. See the package comment.
type Tracker struct {
	host    Host
	entries map[string]*entry
	// shown are the processes, by allocation, that this agent has identified: it has checked that
	// they are the engines that they claim to be. It is not part of an entry, because an agent
	// identifies a process before the coordinator confirms it, and there may be no entry until
	// then. The agent measures an engine that only the coordinator knows, but never kills it on the
	// coordinator's word: any caller of a coordinator may have given it any pid.
	shown map[string]*bursarv1.Process

	epoch      uint64 // the highest seen
	leadership uint64 // of that epoch; 0: not known
	storeID    string
	cluster    string // the name; empty: not known
	others     []*bursarv1.ClusterIdentity

	seen     uint64 // the ledger sequence of the last answer, within the epoch
	sequence uint64 // of the last Sync that was built
	answered uint64 // the highest sequence that was answered
	interval time.Duration
	lastFull time.Time

	registered bool
	full       bool // the next Sync reports everything
	resized    bool // the coordinator has an older capacity
	urgent     bool
	refusing   bool // a grant was refused since the last Sync was built, or is about to be
	draining   bool
	// resyncAfter is how long a due registration may wait; 0: it is due at once.
	resyncAfter time.Duration

	sample  *bursarv1.HostSample
	sampled time.Time
	// available is the last value of SetAvailable since the sample, in bytes; nil: none.
	available      *int64
	reportedSample *bursarv1.HostSample // that of the last Sync that was answered

	policies policy.Set
	tick     time.Duration // between two measurements
	notices  []Notice      // of the last one

	// unsaved are the changes since the last Snapshot or Change; taken are the changes that the
	// last one contains.
	unsaved, taken unsaved

	sums sums
}

// phase is the phase of an entry.
type phase uint8

const (
	held      phase = iota + 1 // reserved or active
	vetoed                     // refused for lack of memory
	ended                      // its process ended
	forgotten                  // ended by the ledger
)

// entry is one allocation.
type entry struct {
	phase phase
	grant *bursarv1.Allocation
	epoch uint64 // in which the grant was learned

	// Of an engine:
	usage     *Usage // of the last sample; nil: none yet
	reported  *Usage // the last usage that the coordinator is known to have
	pending   bool   // sent in a Sync that is not answered yet
	judgement policy.Judgement
	peak      peakUse
	cpuTime   cpuTime
	// incidents are those of its life, and kept their stored part: as of the last begin or end of
	// one. noted: one has begun or ended since the last report.
	incidents incidents
	kept      []*bursarv1.Incident
	noted     bool
	// rule is the over-use rule of the last judgement; nil: not judged yet.
	rule *bursarv1.OverUseRule
	// judged is how often this incarnation has judged its use.
	judged int
	// stopError is why it could not be stopped, and reportedStopError the last value sent.
	stopError, reportedStopError string
	over                         leftover
	// memoryLimit is the kernel's limit of its memory in bytes, and reportedMemoryLimit the last
	// value sent; 0: none.
	memoryLimit, reportedMemoryLimit int64
	begun                            begun

	// Of a veto:
	refusal Refusal // the reason
	sentIn  uint64  // the first Sync that carried it; 0: none yet

	tombstone *bursarv1.EngineEnd

	counted share // in the sums
}

// New returns a tracker that has not registered yet, with the snapshot of an earlier incarnation.
// Engines of another boot have ended, because their processes are gone.
func New(now time.Time, host Host, saved Snapshot) *Tracker {
	t := &Tracker{
		host: host, entries: make(map[string]*entry), shown: make(map[string]*bursarv1.Process), interval: defaultInterval,
		epoch: saved.Epoch, leadership: saved.Leadership, storeID: saved.StoreID, cluster: saved.Cluster, unsaved: unsaved{all: true},
	}
	for _, grant := range saved.Engines {
		// epoch 0: each later record of a coordinator is newer
		e := &entry{
			phase: held, grant: withoutIncidents(grant), incidents: incidentsOf(grant.GetIncidents()), kept: grant.GetIncidents(),
			over: leftover{end: grant.GetLeaderEnd(), left: saved.Left[grant.GetId()]},
		}
		e.restoreUse()
		t.put(e)
		t.shown[grant.GetId()] = grant.GetProcess()
		if saved.BootID != host.BootID {
			t.end(e, rebooted(now, grant.GetId()))
		}
	}
	for _, end := range saved.Ended {
		t.put(&entry{phase: ended, tombstone: end, grant: &bursarv1.Allocation{Id: end.GetAllocationId(), HostId: host.ID}})
	}
	return t
}

// Epoch is the highest epoch seen.
func (t *Tracker) Epoch() uint64 { return t.epoch }

// StoreID is the identity of the store behind the epoch; empty before the first registration.
func (t *Tracker) StoreID() string { return t.storeID }

// SetCluster sets the host's cluster, and other clusters that its agent has seen.
func (t *Tracker) SetCluster(name string, others []*bursarv1.ClusterIdentity) {
	if name != t.cluster {
		t.cluster, t.unsaved.all = name, true
	}
	t.others = others
}

// Interval is the time until the next Sync, as set by the coordinator.
func (t *Tracker) Interval() time.Duration { return t.interval }

// NeedsRegister reports whether the agent must register the host, for the first time or again,
// before the next Sync.
func (t *Tracker) NeedsRegister() bool { return !t.registered }

// Agreed reports whether the coordinator knows the host and all its engines, and has sent all its
// grants.
func (t *Tracker) Agreed() bool { return t.registered && !t.full }

// Urgent reports whether the next Sync should be sent at once.
func (t *Tracker) Urgent() bool {
	return t.urgent || t.resyncAfter == 0 && (!t.registered || t.full)
}

// Refusing reports whether a Sync should soon report grants that this host refuses. It is not
// Urgent: otherwise a caller could cause a Sync with each such request.
func (t *Tracker) Refusing() bool { return t.refusing }

// ResyncAfter is how long after its last answer a new leader wants a registration and a full
// report; 0 if it has not said. The agent may send them earlier.
func (t *Tracker) ResyncAfter() time.Duration { return t.resyncAfter }

// Draining reports whether the coordinator wants no new engines here.
func (t *Tracker) Draining() bool { return t.draining }

// Host returns the announcement.
func (t *Tracker) Host() Host { return t.host }

// SetCapacity replaces the host's capacity; the next Sync reports a change.
func (t *Tracker) SetCapacity(capacity *bursarv1.Resource) {
	if proto.Equal(capacity, t.host.Capacity) {
		return
	}
	t.host.Capacity = capacity
	t.resized, t.urgent = true, true
}

// Announce replaces the labels and the protected part, and makes the host register again.
func (t *Tracker) Announce(labels map[string]string, protected *bursarv1.Resource) {
	t.host.Labels, t.host.Protected = labels, protected
	t.Resync()
}

// Get returns an allocation that is held: reserved, or active.
func (t *Tracker) Get(id string) (*bursarv1.Allocation, bool) {
	if e := t.entries[id]; e != nil && e.phase == held {
		return e.grant, true
	}
	return nil, false
}

// Ended returns how an engine has ended, until the coordinator acknowledges it; nil if the
// coordinator has acknowledged it, or if the engine runs.
func (t *Tracker) Ended(id string) *bursarv1.EngineEnd {
	if e := t.entries[id]; e != nil && e.phase == ended {
		return e.tombstone
	}
	return nil
}

// All returns the allocations that are held, by id, with their last measurements.
func (t *Tracker) All() []*bursarv1.Allocation {
	var list []*bursarv1.Allocation
	for _, e := range t.inOrder() {
		if e.phase == held {
			list = append(list, e.shown())
		}
	}
	return list
}

// shown returns the grant with the agent's own measurement, which is newer than the coordinator's.
func (e *entry) shown() *bursarv1.Allocation {
	if e.usage == nil && len(e.grant.GetSeal()) == 0 && len(e.incidents) == 0 && e.over.end == nil && e.begun == (begun{}) {
		return e.grant
	}
	a := proto.CloneOf(e.record())
	e.begun.showIn(a)
	if a.GetLaunch() != nil && e.begun.logDirectory != "" {
		a.Launch.LogDirectory = e.begun.logDirectory
	}
	a.Seal = nil // between the agent and the coordinators
	a.Incidents = e.incidents.messages()
	if e.usage == nil {
		return a
	}
	a.Measured, a.UnreclaimableBytes, a.OverUse = e.usage.measured(), e.usage.UnreclaimableBytes, overUses(e.usage.over)
	a.StopError, a.MemoryLimitBytes = e.stopError, e.memoryLimit
	e.use().showIn(a)
	return a
}

// SetStopError notes why an engine could not be stopped; empty: no error.
func (t *Tracker) SetStopError(id, text string) (changed bool) {
	e := t.entries[id]
	if e == nil || !e.tracked() || e.stopError == text {
		return false
	}
	e.stopError, t.urgent = text, true
	return true
}

// SetMemoryLimit notes the kernel's limit of an engine's memory, in bytes; 0: none.
func (t *Tracker) SetMemoryLimit(id string, limit int64) {
	if e := t.entries[id]; e != nil && e.tracked() {
		e.memoryLimit = limit
	}
}

// Engine is an active allocation with a process here.
type Engine struct {
	ID      string
	Process *bursarv1.Process
	// Identified: this agent has identified the process, and does not only know it from a
	// coordinator.
	Identified bool
	// LeaderEnd is that of Tracker.LeaderEnd, Left the remembered processes.
	LeaderEnd *bursarv1.LeaderEnd
	Left      []Left
}

// Engines returns the engines to measure, by id.
func (t *Tracker) Engines() []Engine {
	var list []Engine
	for _, e := range t.inOrder() {
		if e.tracked() {
			list = append(list, t.engine(e))
		}
	}
	return list
}

// Engine returns one of the Engines.
func (t *Tracker) Engine(id string) (Engine, bool) {
	if e := t.entries[id]; e != nil && e.tracked() {
		return t.engine(e), true
	}
	return Engine{}, false
}

func (t *Tracker) engine(e *entry) Engine {
	process := e.grant.GetProcess()
	identified := t.identified(e)
	if !identified && (process.GetCgroup() != "" || process.GetReaperPid() != 0) {
		process = proto.CloneOf(process)
		process.Cgroup, process.ReaperPid, process.ReaperStartTime = "", nil, nil
	}
	return Engine{ID: e.grant.GetId(), Process: process, Identified: identified, LeaderEnd: e.over.end, Left: e.over.left}
}

// Show notes that the agent has identified a process as the engine of an allocation. This happens
// before the coordinator confirms it, which may refuse; nil undoes it. Until the coordinator has
// confirmed a process, it does not replace one that was identified before: then the caller must
// show it again.
func (t *Tracker) Show(id string, process *bursarv1.Process) {
	if e := t.entries[id]; e != nil && e.tracked() && !proto.Equal(process, t.shown[id]) {
		if engine := e.grant.GetProcess(); process != nil && t.identified(e) && (process.GetPid() != engine.GetPid() || process.GetStartTime() != engine.GetStartTime()) {
			return
		}
		t.unsaved.add(id) // a Snapshot has the engines that were shown
	}
	if process == nil {
		delete(t.shown, id)
		return
	}
	t.shown[id] = process
	if e := t.entries[id]; e != nil {
		t.believe(e)
	}
}

// believe replaces the coordinator's record of an identified process by the agent's own findings:
// its own cgroup, and its user. The agent stops the whole cgroup with the engine, and any caller
// may have given a coordinator another cgroup.
func (t *Tracker) believe(e *entry) {
	if own := t.shown[e.grant.GetId()]; t.identified(e) && !proto.Equal(own, e.grant.GetProcess()) {
		e.grant = proto.CloneOf(e.grant)
		e.grant.Process = own
	}
}

// identified reports whether this agent has identified the engine's process.
func (t *Tracker) identified(e *entry) bool {
	shown, process := t.shown[e.grant.GetId()], e.grant.GetProcess()
	return shown != nil && shown.GetPid() == process.GetPid() && shown.GetStartTime() == process.GetStartTime()
}

// SetProcess completes the record of an engine's process. A coordinator may not know the start time
// if another client gave it the engine. SetProcess does nothing if the allocation has another pid.
func (t *Tracker) SetProcess(id string, process *bursarv1.Process) {
	e := t.entries[id]
	if e == nil || !e.tracked() || e.grant.GetProcess().GetPid() != process.GetPid() {
		return
	}
	if t.identified(e) {
		t.shown[id] = process
	}
	e.grant = proto.CloneOf(e.grant)
	e.grant.Process = process
	t.count(e)
	t.unsaved.add(id)
}

// tracked reports whether the entry is an engine, which is measured, reported and part of the
// digest.
func (e *entry) tracked() bool {
	return e.phase == held && e.grant.GetState() == bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE && e.grant.GetProcess().GetPid() != 0
}

func (t *Tracker) inOrder() []*entry {
	list := make([]*entry, 0, len(t.entries))
	for _, id := range slices.Sorted(maps.Keys(t.entries)) {
		list = append(list, t.entries[id])
	}
	return list
}

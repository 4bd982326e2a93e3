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
	// fullEvery is how often a Sync reports everything and asks for everything, so that no drift
	// stays.
	fullEvery = 10 * time.Minute
	// mostResyncAfter bounds how long a coordinator can put off a registration. After 5 min without
	// one it takes the host for lost.
	mostResyncAfter = 2 * time.Minute
	// defaultInterval is the time between two Syncs if no coordinator has said it.
	defaultInterval = 5 * time.Second
)

// Host is what an agent announces of its machine.
type Host struct {
	ID      string
	Address string
	Labels  map[string]string
	// Capacity is what may be given away at most, Protected the part of it that never is.
	Capacity  *bursarv1.Resource
	Protected *bursarv1.Resource
	BootID    string
	// MachineID and PIDNamespace are as in a RegisterRequest.
	MachineID, PIDNamespace string
	Version                 string
	// Incarnation must be higher at every start.
	Incarnation uint64
}

// Tracker is the agent's knowledge of its allocations. See the package comment.
type Tracker struct {
	host    Host
	entries map[string]*entry
	// shown are the processes, by allocation, that were shown to this agent and found to be what
	// they claim. It is no part of an entry: a process is shown before the coordinator confirms
	// it, and there may be no entry until then. An engine that only the coordinator knows is
	// measured, but it is never killed on the coordinator's word: anybody who reaches a
	// coordinator may have given it any pid.
	shown map[string]*bursarv1.Process

	epoch      uint64 // the highest seen
	leadership uint64 // whose epoch that is; 0: not known
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
	resized    bool // the capacity is not what the coordinator was told
	urgent     bool
	refusing   bool // a grant was refused since the last Sync was built, or is about to be
	draining   bool
	// resyncAfter is how long the host need not register although it has to; 0: at once.
	resyncAfter time.Duration

	sample  *bursarv1.HostSample
	sampled time.Time
	// available is what SetAvailable has taken since the sample, in bytes; nil: nothing.
	available      *int64
	reportedSample *bursarv1.HostSample // that of the last Sync that was answered

	policies policy.Set
	tick     time.Duration // between two measurements
	notices  []Notice      // of the last one

	// unsaved is what has changed of a Snapshot since the last one was taken to be stored; taken
	// is what that one stores.
	unsaved, taken unsaved

	sums sums
}

// phase is what an entry is to the agent.
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
	reported  *Usage // as the coordinator has it, for all that is known
	pending   bool   // was sent in a Sync that is not answered
	judgement policy.Judgement
	peak      peakUse
	cpuTime   cpuTime
	// incidents are what has happened in its life, and kept what of that is stored: as it was when
	// one began or ended. noted: one has since the last report.
	incidents incidents
	kept      []*bursarv1.Incident
	noted     bool
	// rule is what is done about its over-use, by the last time that it was judged; nil: it was
	// not.
	rule *bursarv1.OverUseRule
	// judged is how often its use was judged since this incarnation knows it.
	judged int
	// stopError is why it could not be stopped, and reportedStopError what was sent of it.
	stopError, reportedStopError string
	over                         leftover
	// memoryLimit is the limit of memory in bytes that the kernel has for it, and
	// reportedMemoryLimit what was sent of that; 0: none.
	memoryLimit, reportedMemoryLimit int64
	begun                            begun

	// Of a veto:
	refusal Refusal // if it was refused
	sentIn  uint64  // the first Sync that carried it; 0: none yet

	tombstone *bursarv1.EngineEnd

	counted share // in the sums
}

// New returns a tracker that has not registered yet, with what an earlier incarnation knew.
// Processes of another boot are not there any more: their engines have ended.
func New(now time.Time, host Host, saved Snapshot) *Tracker {
	t := &Tracker{
		host: host, entries: make(map[string]*entry), shown: make(map[string]*bursarv1.Process), interval: defaultInterval,
		epoch: saved.Epoch, leadership: saved.Leadership, storeID: saved.StoreID, cluster: saved.Cluster, unsaved: unsaved{all: true},
	}
	for _, grant := range saved.Engines {
		// of no epoch: all that a coordinator says of it is newer
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

// Epoch is the highest seen.
func (t *Tracker) Epoch() uint64 { return t.epoch }

// StoreID is the identity of the store behind the epoch; empty before the first registration.
func (t *Tracker) StoreID() string { return t.storeID }

// SetCluster takes the cluster that the host belongs to, and others that its agent has seen.
func (t *Tracker) SetCluster(name string, others []*bursarv1.ClusterIdentity) {
	if name != t.cluster {
		t.cluster, t.unsaved.all = name, true
	}
	t.others = others
}

// Interval is the time until the next Sync, as the coordinator wants it.
func (t *Tracker) Interval() time.Duration { return t.interval }

// NeedsRegister reports whether the host must be announced, for the first time or again, before
// the next Sync.
func (t *Tracker) NeedsRegister() bool { return !t.registered }

// Agreed reports whether the coordinator knows the host and all that runs on it, and has sent all
// that it knows.
func (t *Tracker) Agreed() bool { return t.registered && !t.full }

// Urgent reports whether there is something that the coordinator should hear at once.
func (t *Tracker) Urgent() bool {
	return t.urgent || t.resyncAfter == 0 && (!t.registered || t.full)
}

// Refusing reports whether the coordinator should hear soon of grants that this host refuses. It is
// not Urgent: whoever asks for such grants must not be able to have a Sync sent for each.
func (t *Tracker) Refusing() bool { return t.refusing }

// ResyncAfter is how long after its last answer a new leader wants to hear of the host again, with
// a registration and a full report; 0: it has not said. It may hear of it earlier.
func (t *Tracker) ResyncAfter() time.Duration { return t.resyncAfter }

// Draining reports whether the coordinator wants no new engines here.
func (t *Tracker) Draining() bool { return t.draining }

// Host is what is announced.
func (t *Tracker) Host() Host { return t.host }

// SetCapacity replaces the host's capacity; the next Sync reports a change.
func (t *Tracker) SetCapacity(capacity *bursarv1.Resource) {
	if proto.Equal(capacity, t.host.Capacity) {
		return
	}
	t.host.Capacity = capacity
	t.resized, t.urgent = true, true
}

// Announce replaces what is said of the host when it registers, and has it register again.
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

// Ended returns how an engine has ended, as long as the coordinator has not heard of that; nil: it
// has, or the engine runs.
func (t *Tracker) Ended(id string) *bursarv1.EngineEnd {
	if e := t.entries[id]; e != nil && e.phase == ended {
		return e.tombstone
	}
	return nil
}

// All returns the allocations that are held, by id, with what was last measured of them.
func (t *Tracker) All() []*bursarv1.Allocation {
	var list []*bursarv1.Allocation
	for _, e := range t.inOrder() {
		if e.phase == held {
			list = append(list, e.shown())
		}
	}
	return list
}

// shown is the grant with the agent's own measurement, which is newer than the coordinator's.
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

// SetStopError notes why an engine could not be stopped; empty: nothing went wrong.
func (t *Tracker) SetStopError(id, text string) (changed bool) {
	e := t.entries[id]
	if e == nil || !e.tracked() || e.stopError == text {
		return false
	}
	e.stopError, t.urgent = text, true
	return true
}

// SetMemoryLimit notes which limit of memory the kernel has for an engine, in bytes; 0: none.
func (t *Tracker) SetMemoryLimit(id string, limit int64) {
	if e := t.entries[id]; e != nil && e.tracked() {
		e.memoryLimit = limit
	}
}

// Engine is an active allocation with a process here.
type Engine struct {
	ID      string
	Process *bursarv1.Process
	// Identified: the process was shown to this agent, and is not only known from a coordinator.
	Identified bool
	// LeaderEnd is as LeaderEnd returns it, Left what was remembered.
	LeaderEnd *bursarv1.LeaderEnd
	Left      []Left
}

// Engines returns what is to be measured, by id.
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

// Show notes that a process was found to be what it was said to be: the allocation's engine. That
// is before the coordinator confirms it, which may refuse; nil takes it back. A process does not
// replace one that was shown before until the coordinator has confirmed it: it must be shown again
// then.
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

// believe puts what the agent itself has found of a process that was shown in place of what a
// coordinator says: which cgroup it has to itself, and which user it runs as. What is in the
// cgroup is stopped with it, and anybody may have told a coordinator something else.
func (t *Tracker) believe(e *entry) {
	if own := t.shown[e.grant.GetId()]; t.identified(e) && !proto.Equal(own, e.grant.GetProcess()) {
		e.grant = proto.CloneOf(e.grant)
		e.grant.Process = own
	}
}

// identified reports whether the engine's process was shown to this agent.
func (t *Tracker) identified(e *entry) bool {
	shown, process := t.shown[e.grant.GetId()], e.grant.GetProcess()
	return shown != nil && shown.GetPid() == process.GetPid() && shown.GetStartTime() == process.GetStartTime()
}

// SetProcess completes what is known of an engine's process: a coordinator that was given the
// engine by another client may not know when it started. It does nothing if the allocation's pid
// is another.
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

// tracked reports whether the entry is an engine: one that is measured, reported and in the
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

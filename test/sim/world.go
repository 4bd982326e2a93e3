package sim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// start is when every simulated world begins: with the year 2030. Every event asks for it.
func start() time.Time { return time.Unix(1893456000, 0).UTC() }

// Config sizes a World.
type Config struct {
	Seed uint64
	// Hosts is the number of machines, Coordinators that of coordinators. A single coordinator
	// always leads.
	Hosts, Coordinators int
	// Busy is how long faults and load last; Quiet is how long the world then has to come to rest.
	Busy, Quiet time.Duration
	// Limits makes it a world whose rules limit external parts (externallimits.go).
	Limits bool
	// Starts makes it a world with callers that start engines from elsewhere (starts.go).
	Starts bool
	// Kinds makes it a world in which so many kinds of requests wait (crowd.go); 0: another one.
	Kinds int
	// Story keeps every line of what happened; without it only the last lines are kept.
	Story bool
}

// Tally counts what a world has gone through.
type Tally struct {
	Steps, Grants int
	Leaderships   int // that began
	Deposed       int // commits that the store refused for their epoch
	Forwarded     int // calls that a standby passed on
	Late          int // answers that came when another coordinator led already
	Restored      int // the store was put back
	Filed         int // leaderships that began with what was filed ahead
	Copied        int // the store was copied

	QueueGrants int // of parts in queues
	// LimitedGrants is those of parts that a rule limits. GrowingRefusals are shortfalls in queues
	// that may grow, HeldBackRefusals those in queues that hold applications back.
	LimitedGrants, GrowingRefusals, HeldBackRefusals int
	// PromisedGrants is grants with a part where a rule guarantees something.
	PromisedGrants int
	Reports        int // of clusters that a ledger took in
	Outdated       int // that it put aside
	Superseded     int // that came when their leadership was over
	LookedUp       int // requests whose ids the store was asked for
	Recalled       int // leaderships that were told all remembered request ids
	// Untimely is the refusals because a cluster was still to be read.
	Untimely  int
	Silences  int // of clusters that could not be read
	Failovers int // of clusters
	OwnLives  int // allocations that ended with their applications
	Followed  int // parts that followed their applications to other queues

	OverUses    int // transitions of engines in over-use
	Killed      int // engines that were stopped for it
	OutOfMemory int // that the kernel ended for lack of memory
	Drained     int // that were stopped because a deadline had passed
	Executed    int // that were started from elsewhere and have begun
	Retried     int // of them, those after another try that has begun
	Usable      int // answers that one of them can be used

	// Hidden is the leaderships that began with a stored rule hidden by one of a file.
	Hidden int
}

// World is one simulation. It is not safe for concurrent use: everything happens in Run.
type World struct {
	cfg    Config
	source *rand.PCG // of rng
	rng    *rand.Rand
	limits *rand.Rand // of limits of external parts; nil: no rule has any
	now    time.Time
	events events
	// order is the order of scheduling, which events of the same time keep.
	order uint64

	files     map[string][]ledger.Quota // the rules, by file; never changed, but replaced
	teamLimit int64                     // of each team, in bytes of memory; it never changes
	calm      bool                      // faults have stopped
	resting   bool                      // and nothing happens in the clusters any more
	// commitFaults is the number of commits for one that fails, hiccups the number of moments for
	// one at which a coordinator is stopped; 0: none.
	commitFaults, hiccups int

	drawn uint64 // numbers of leaderships

	store    *sharedStore
	consul   *consul
	coords   []*coord
	hosts    []*machine
	clusters []*external
	probes   []*prober
	operator *link
	gateways []*link
	callers  *callerRecord
	crowd    *crowd  // nil: a world without one
	starts   *starts // nil: a world without callers that start engines from elsewhere
	truth    truth

	tally Tally
	story []string
	said  transcript
	fault error // the first violation
}

// NewWorld draws a world from its seed.
func NewWorld(cfg Config) *World {
	source := newSource(cfg.Seed)
	w := &World{cfg: cfg, source: source, rng: rand.New(source), now: start()}
	if cfg.Limits {
		w.limits = rand.New(newSource(^cfg.Seed))
	}
	w.callers, w.truth = newCallerRecord(w), make(truth)
	w.store = newSharedStore(w)
	w.consul = &consul{w: w}
	for i := range cfg.Coordinators {
		w.coords = append(w.coords, newCoordinator(w, i))
	}
	for i := range cfg.Hosts {
		w.hosts = append(w.hosts, newMachine(w, i))
	}
	w.operator = w.newLink("operator")
	if cfg.Kinds > 0 {
		w.crowd = newCrowd(w)
		return w
	}
	w.drawClusters()
	if cfg.Starts {
		w.starts = newStarts(w)
	}
	return w
}

// Run plays the world to its end and returns the first violation.
func (w *World) Run() error {
	w.teamLimit = (4 + w.rng.Int64N(20)) * gib
	if w.crowd != nil {
		w.files = w.crowd.rules()
	} else {
		w.files = w.drawFiles()
		w.storeRulesBefore()
	}
	for _, c := range w.coords {
		c.boot()
	}
	for _, m := range w.hosts {
		m.boot()
	}
	if w.crowd != nil {
		w.crowd.launch()
	} else {
		w.launchClusters()
		w.launchLoad()
		if w.starts != nil {
			w.starts.launch()
		}
		w.launchReaders()
		w.launchStrangers()
		w.launchFaults()
	}
	w.after(w.cfg.Busy, "faults stop", w.endFaults)
	w.after(w.cfg.Busy+w.cfg.Quiet/2, "", w.rest)
	w.after(w.cfg.Busy+w.cfg.Quiet*3/4, "", w.probe)
	end := w.cfg.Busy + w.cfg.Quiet
	for w.fault == nil && len(w.events) > 0 && w.events[0].at <= end {
		e, _ := heap.Pop(&w.events).(*event)
		w.now = start().Add(e.at)
		w.tally.Steps++
		w.said.event(e.at, e.order)
		if e.what != "" {
			w.tellf("%s", e.what)
		}
		e.do()
		w.checkStep()
	}
	if w.fault == nil {
		w.checkEnd()
	}
	w.said.end(w)
	return w.fault
}

// after schedules something.
func (w *World) after(d time.Duration, what string, do func()) {
	w.order++
	heap.Push(&w.events, &event{at: w.now.Sub(start()) + d, order: w.order, what: what, do: do})
}

// between draws a duration.
func (w *World) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rng.Int64N(int64(most-least)+1))
}

// drawLeadership returns a number that no leadership has had.
func (w *World) drawLeadership() uint64 {
	w.drawn++
	return w.drawn
}

// chance draws whether something that happens once in n times does.
func (w *World) chance(n int) bool { return w.rng.IntN(n) == 0 }

// tellf adds a line to the story.
func (w *World) tellf(format string, args ...any) {
	const kept = 400
	line := fmt.Sprintf("%12s  ", w.now.Sub(start())) + fmt.Sprintf(format, args...)
	w.said.line(line)
	w.story = append(w.story, line)
	if !w.cfg.Story && len(w.story) > 2*kept {
		w.story = append(w.story[:0], w.story[kept:]...)
	}
}

// failf records a violation.
func (w *World) failf(invariant int, format string, args ...any) {
	if w.fault == nil {
		w.fault = fmt.Errorf("invariant %d at %s, step %d: %s", invariant, w.now.Sub(start()), w.tally.Steps, fmt.Sprintf(format, args...))
		w.tellf("VIOLATION %v", w.fault)
	}
}

// Story is what happened, line by line; only the last lines if Config.Story is not set.
func (w *World) Story() []string { return w.story }

// Transcript is a hash of all that was done in the world, and one that also has all that was said,
// after Run.
func (w *World) Transcript() string { return w.said.String() }

// Tally is what the world has gone through.
func (w *World) Tally() Tally {
	t := w.tally
	t.Grants = len(w.callers.granted)
	return t
}

// event is something that happens at a time.
type event struct {
	at    time.Duration // since the start
	order uint64
	what  string
	do    func()
}

// events is a heap by time, then by order of scheduling.
type events []*event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { ev, _ := x.(*event); *e = append(*e, ev) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*e = old[:len(old)-1]
	return last
}

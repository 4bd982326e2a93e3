package ledger

import (
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/bursar/bursar/resource"
)

// host is a machine with its account, its measurements and its allocations. As in an account, the
// fields that every decision reads come first.
type host struct {
	slot     Slot
	state    HostState
	needFull bool     // the next Sync must report everything
	measured bool     // by a fresh sample, with known memory
	pressure bool     // by the last sample
	refusal  string   // by the last sample; empty: none
	full     string   // why its rows take too many bytes; empty: they do not
	entries  []*entry // entries that hold something here
	bytes    int64    // of their rows and charges
	// callers are the bytes of each caller, without adopted engines. They are counted while all
	// together have at least as many as one may have; nil: they have fewer.
	callers       map[*usage]int64
	createdQueues int // cluster queues that exist only because of its agent's reports

	// Of its last sample:
	live     int64 // bytes available beyond safety
	promised int64 // bytes that its allocations may still use beyond what the sample showed
	load     int64 // load average over one minute, in thousandths; 0: unknown

	digest  uint64 // of the ids of its active allocations with a process
	changed uint64 // revision of the last change of any of its allocations
	gone    departed

	account account
	HostRecord
	listed machine // under which it is in Ledger.machines
	// processes are the active allocations with a process, by pid. samePID are further ones, whose
	// pid another one has in processes.
	processes  map[int32]*entry
	samePID    []numbered
	unaccepted int // entries with claims

	timer    timer
	lastSync Instant // or the load, while it is returning
	heard    bool    // since the load
	stranger stranger
	sequence uint64 // of the last Sync of this incarnation
	sample   *Sample
	sampleAt Instant
	// cutLabels and cutCapacity are as in a RegisterCommand.
	cutLabels, cutCapacity []string
	notTaken               int // how often its agent has named an engine that the ledger has elsewhere
}

// headroom is the memory that the machine can still promise, in bytes; below zero if it has
// promised too much.
func (h *host) headroom() int64 { return h.live - h.promised }

// agentEnded is why a host takes no engines whose agent has ended in order.
const agentEnded = "its agent has ended"

// unschedulable says why no new grant may go there, as a note and in words; both are empty if one
// may.
func (h *host) unschedulable() (note Note, why string) {
	switch {
	case h.Left && h.Draining:
		return NoteHealth, agentEnded + "; " + withReason("draining", h.MutedReason())
	case h.Left && h.Cordoned:
		return NoteHealth, agentEnded + "; " + withReason("cordoned", h.MutedReason())
	case h.Left:
		return NoteHealth, agentEnded
	case h.state != Healthy:
		return NoteHealth, h.state.String()
	case h.Draining:
		return NoteDraining, withReason("draining", h.MutedReason())
	case h.Cordoned:
		return NoteCordoned, withReason("cordoned", h.MutedReason())
	case h.needFull:
		return NoteUnknown, "its agent has not reported all its engines yet"
	case !h.measured:
		return NoteUnknown, "no fresh measurement of its memory"
	case h.pressure:
		return NotePressure, "under memory pressure"
	case h.refusal != "":
		return NoteRefused, h.refusal
	case h.full != "":
		return NoteRefused, h.full
	}
	return "", ""
}

// awaits reports whether a host that new engines may go to has not said since the ledger was loaded
// what runs there. It does so at once after it has registered.
func (l *Ledger) awaits(h *host) bool {
	unheard := h.state == Returning || h.state == Healthy && h.needFull && l.now < l.hostsBack
	return unheard && !h.Cordoned && !h.Draining && !h.Left
}

// awaitsOneFor reports whether a host that a request may go to is awaited.
func (l *Ledger) awaitsOneFor(e *entry) bool {
	for _, h := range l.hosts {
		if l.awaits(h) && h.suits(e.Wishes) && !avoids(e.Wishes, h) {
			return true
		}
	}
	return false
}

// MutedReason is why operators keep new engines off the host, in their words, and when that ends or
// the engines there are stopped.
func (r *HostRecord) MutedReason() string {
	var ends string
	switch {
	case r.StopTime != 0:
		ends = "deadline for its engines: " + r.StopTime.Time().UTC().Format(time.RFC3339)
	case r.CordonedUntil != 0:
		ends = "ends by itself: " + r.CordonedUntil.Time().UTC().Format(time.RFC3339)
	default:
		return r.Reason
	}
	if r.Reason == "" {
		return ends
	}
	return r.Reason + "; " + ends
}

func withReason(what, reason string) string {
	if reason == "" {
		return what
	}
	return what + ": " + reason
}

// fits reports whether the request can go there now, by health, by the account and by measurement.
func (h *host) fits(request resource.Vector) bool {
	if note, _ := h.unschedulable(); note != "" {
		return false
	}
	if m := request.Memory(); m != 0 && m > h.headroom() {
		return false
	}
	return h.account.fits(request)
}

// suits reports whether the host has the labels that a request requires. It does not look at other
// wishes.
func (h *host) suits(w *Wishes) bool {
	return w == nil || h.Labels.MatchesFilter(w.Required) && w.Rules.Admit(h.Labels)
}

// avoids reports whether a request wants to avoid the host.
func avoids(w *Wishes, h *host) bool { return w != nil && slices.Contains(w.Avoid, h.ID) }

// shortfalls appends why the request cannot go there.
func (h *host) shortfalls(list []Shortfall, request resource.Vector) []Shortfall {
	before := len(list)
	list = h.account.shortfalls(list, request)
	if note, why := h.unschedulable(); note != "" {
		muted := note == NoteCordoned || note == NoteDraining
		if len(list) > before && !muted {
			return list
		}
		closed := h.account.closedShortfall(request, note)
		switch {
		case muted:
			closed.Detail = h.MutedReason()
		case note == NoteHealth || note == NoteRefused: // which say too little alone
			closed.Detail = why
		}
		return append(list, closed)
	}
	if m := request.Memory(); m != 0 && m > h.headroom() && m <= h.account.available(resource.Memory) {
		list = append(list, h.account.shortfall(resource.Memory, m, h.headroom(), NoteMeasured))
	}
	return list
}

// free returns the most that a request could get, in memory, cpu and instances.
func (h *host) free() [3]int64 {
	if note, _ := h.unschedulable(); note != "" {
		return [3]int64{}
	}
	return [3]int64{
		min(h.account.available(resource.Memory), h.headroom()),
		h.account.available(resource.CPU),
		h.account.available(resource.Instances),
	}
}

// updatePlacer gives the Placer the host's present state.
func (l *Ledger) updatePlacer(h *host) {
	note, _ := h.unschedulable()
	closed := note == NoteHealth || note == NoteCordoned || note == NoteDraining
	v := HostView{
		ID: h.ID, Labels: h.Labels, Limit: h.most(),
		Health: !closed, Measured: note == "" || closed,
		Held: h.account.claim != nil, LoadMillis: h.loadPerCore(),
	}
	v.Available, v.Booked = h.balance()
	l.placer.Put(h.slot, v)
}

// updatePlacerBalance gives the Placer, which knows the host, the host's present balance after a
// grant or a release.
func (l *Ledger) updatePlacerBalance(h *host) {
	if _, none := l.placer.(unplaced); none {
		return
	}
	available, booked := h.balance()
	l.placer.Book(h.slot, available, booked)
}

// balance returns the amounts of the host's account for a HostView.
func (h *host) balance() (available, booked resource.Vector) {
	a := &h.account
	memory, cpu, instances := a.available(resource.Memory), a.available(resource.CPU), a.available(resource.Instances)
	available = available.WithMemory(max(0, min(memory, h.headroom()))).WithCPU(max(0, cpu)).WithInstances(max(0, instances))
	booked = booked.WithMemory(a.most[0] - memory).WithCPU(a.most[1] - cpu).WithInstances(a.most[2] - instances)
	for _, q := range a.limit.Custom() {
		free := a.available(q.Name)
		available = available.With(q.Name, max(0, free))
		booked = booked.With(q.Name, a.mostOf(q.Name)-free)
	}
	for dimension, kept := range a.idle().All() { // others cannot have it
		available = available.With(dimension, get(available, dimension)-kept)
	}
	return available, booked
}

// most returns the capacity of the host for grants if nothing ran there.
func (h *host) most() resource.Vector {
	v := resource.Vector{}.WithMemory(h.account.most[0]).WithCPU(h.account.most[1]).WithInstances(h.account.most[2])
	for _, q := range h.account.limit.Custom() {
		v = v.With(q.Name, h.account.mostOf(q.Name))
	}
	return v
}

func (h *host) loadPerCore() int64 {
	if cores := h.account.most[1]; cores > 0 {
		return h.load * 1000 / cores
	}
	return 0
}

// addHost adds a host to the tables.
func (l *Ledger) addHost(r HostRecord) *host {
	// earlier departures are not known here
	h := &host{HostRecord: r, gone: departed{before: l.revision}}
	h.timer.owner = h
	h.account.name = hostName(r.ID)
	h.account.complete = true
	h.account.queue.account, h.account.queue.host = &h.account, h
	if n := len(l.freeSlots); n > 0 {
		h.slot = l.freeSlots[n-1]
		l.freeSlots = l.freeSlots[:n-1]
		l.slots[h.slot] = h
	} else {
		h.slot = Slot(len(l.slots)) //nolint:gosec // two thousand million hosts are out of reach
		l.slots = append(l.slots, h)
	}
	l.hosts[r.ID] = h
	at, _ := l.hostPlace(r.ID)
	l.hostOrder = slices.Insert(l.hostOrder, at, h)
	h.Capacity = resource.Vector{} // nothing of it is counted yet
	l.setCapacity(h, r.Capacity, r.Protected)
	l.updateMachine(h, false)
	return h
}

func (l *Ledger) hostPlace(id string) (int, bool) {
	return slices.BinarySearchFunc(l.hostOrder, id, func(h *host, id string) int { return strings.Compare(h.ID, id) })
}

// setCapacity sets the capacity of the host for grants. The sum of these is the measure of all fair
// shares.
func (l *Ledger) setCapacity(h *host, capacity, protected resource.Vector) {
	l.fleet.add(&h.account, -1)
	l.countDimensions(h.Capacity, -1)
	l.countDimensions(capacity, 1)
	h.Capacity, h.Protected = capacity, protected
	h.account.setLimit(capacity, protected)
	l.shapes++
	l.fleet.add(&h.account, 1)
	l.revalueAll()
}

func known(most int64) int64 {
	if most == unlimited {
		return 0
	}
	return most
}

// removeHost removes a host, on which nothing is left, from the tables.
func (l *Ledger) removeHost(h *host) {
	l.timers.set(&h.timer, 0)
	delete(l.timed, &h.timer)
	if c := h.account.claim; c != nil {
		l.endClaim(c.entry)
		l.setEntryTimer(c.entry)
	}
	l.setCapacity(h, resource.Vector{}, resource.Vector{}) // a host that is gone counts in no share
	l.updateMachine(h, true)
	l.placer.Remove(h.slot)
	l.slots[h.slot] = nil
	l.freeSlots = append(l.freeSlots, h.slot)
	delete(l.hosts, h.ID)
	if at, found := l.hostPlace(h.ID); found {
		l.hostOrder = slices.Delete(l.hostOrder, at, at+1)
	}
	l.limitClaimedHosts()
	l.recordRemoved(h.ID)
}

// recordRemoved has the store delete the row of a host.
func (l *Ledger) recordRemoved(id string) {
	l.revision++
	l.changes.Hosts = slices.DeleteFunc(l.changes.Hosts, func(r HostRecord) bool { return r.ID == id })
	l.changes.HostsRemoved = append(l.changes.HostsRemoved, id)
	l.stampNamed(&l.changes.HostStamps, id)
}

// recordHost gives the host a new revision and hands its durable part to the store.
func (l *Ledger) recordHost(h *host) { l.recordRow(&h.HostRecord) }

func (l *Ledger) recordRow(r *HostRecord) {
	l.revision++
	r.Revision = l.revision
	l.stampRevision()
	l.changes.HostsRemoved = slices.DeleteFunc(l.changes.HostsRemoved, func(id string) bool { return id == r.ID })
	l.changes.Hosts = append(l.changes.Hosts, *r)
}

// Interval is the time between two reports of a host: longer for more hosts, so that all together
// stay below a rate. After a load every deadline is at least this far away.
func (l *Ledger) Interval() time.Duration {
	return max(l.cfg.Interval, time.Duration(len(l.hosts))*time.Second/time.Duration(l.cfg.ReportsPerSecond))
}

// FullReportGap is the least time between the full reports of two hosts after a change of leader.
// They are larger than others, and come with a registration each, so half as many may come in a
// second. But all hosts have come before one of them is suspect.
func (l *Ledger) FullReportGap() time.Duration {
	patience := max(time.Duration(l.cfg.SuspectAfter-1)*l.Interval(), l.Interval()/2)
	return min(2*time.Second/time.Duration(l.cfg.ReportsPerSecond), patience/time.Duration(max(1, len(l.hosts))))
}

// departed remembers the latest allocations that ended on a host, for its agent.
type departed struct {
	list []departure
	// before is the revision up to which departures may have been dropped from the list.
	before uint64
}

type departure struct {
	id       ID
	revision uint64
}

// departuresKept bounds the list between two reports. An agent that missed more gets the list of
// all live allocations instead.
const departuresKept = 256

func (h *host) addDeparture(id ID, revision uint64) {
	if len(h.gone.list) >= departuresKept {
		h.gone.before, h.gone.list = h.gone.list[0].revision, h.gone.list[1:]
	}
	h.gone.list = append(h.gone.list, departure{id, revision})
}

// tracked reports whether the host's agent watches the entry's process.
func (e *entry) tracked() bool { return e.State == Active && e.Process.PID != 0 }

// digestOf is an allocation's part of a host's digest: the FNV-1a hash of its id's text.
func digestOf(id ID) uint64 {
	f := fnv.New64a()
	_, _ = f.Write([]byte(id.String())) // a hash never fails
	return f.Sum64()
}

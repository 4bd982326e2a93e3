package ledger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// Live allocations are bounded in bytes, by host and by caller. A host's rows have to fit into one
// answer to its agent. A caller's rows are kept in memory for as long as the caller likes.

const (
	// HostLiveBytes is the size of a host's rows from which it gets no new grants, in bytes. With
	// this bound the complete answer to its agent, stops included, stays below the agent's read
	// limit (readlimit.Agent, 18 MiB).
	HostLiveBytes = 16 << 20
	// hostShare bounds the bytes of one caller's allocations on a host: HostLiveBytes/hostShare. So
	// one caller cannot fill a host.
	hostShare = 2
	// ChargeOverhead is the memory of each queue that a row charges, including those above its own,
	// beyond the bytes of the row. It counts on the row's host alone. Measured: an engine with 8
	// parts that are 32 deep takes 41 KiB, 160 bytes a queue.
	ChargeOverhead = 160
	// adoptedTimes times HostLiveBytes bounds the rows of a host when engines are adopted from
	// reports. A real agent reports less at a time.
	adoptedTimes = 2
	// stopReasonBytes bounds the reasons of stop orders in one answer, in bytes. Further orders
	// have no reason.
	stopReasonBytes = 512 << 10
	// CallerLiveBytes is the default bound of one caller's live rows, in bytes.
	CallerLiveBytes = 256 << 20
	// LiveOverhead is the memory of a live allocation beyond the bytes of its row: its entry, and
	// its places in the tables. Measured: a small one takes 1.8 KiB and counts with 2.1 KiB.
	LiveOverhead = 1 << 10
	// QueueOverhead is the charge of each of these queues to the row's caller: the queue may exist
	// for that caller alone. Measured: a request that waits in 249 queues of its own takes 380 KiB,
	// 1.5 KiB a queue.
	QueueOverhead = 1536
	// largestLive is the largest charge of a live allocation.
	largestLive = 18 << 10

	// grown is the reserve of each row beyond its request. The row's grant and a usual confirmation
	// (a process, its cgroup, an address, some application ids) take less. So these two are never
	// refused because of bytes.
	grown = 1 << 10
	// Bounds of the encoded parts of a row, without their texts. rowBytes is for states, times,
	// numbers, the process, the lengths of texts, and an order to stop.
	rowBytes      = 390 // with a seal
	claimBytes    = 32
	pairBytes     = 12
	textBytes     = 3
	vectorBytes   = 40
	quantityBytes = 22
	externalBytes = 16
)

// LiveBytes returns the largest size of the allocation in an answer to an agent, with its stop
// order, in bytes. It includes the row's reserve. The request counts twice, because its grant is as
// large. Wishes count, although they are not sent to agents.
func (a *Allocation) LiveBytes() int64 {
	resource := resourceBytes(&a.Requested)
	asked := len(a.RequestID) + len(a.Caller) + len(a.ActingUser()) + labelBytes(a.Labels) + 2*resource
	if w := a.Wishes; w != nil {
		asked += len(w.Host) + labelBytes(w.Required) + labelBytes(w.Preferred) + textsBytes(w.Avoid) + w.Rules.bytes()
	}
	rest := rowBytes + max(0, resourceBytes(&a.Entitled)-resource) + len(a.HostID) + len(a.HostAddress) + len(a.Reason) + len(a.StopReason) +
		len(a.Process.Cgroup) + len(a.Process.BootID) + len(a.Address) + textsBytes(a.ApplicationIDs) + len(a.ErrorOutput) + a.Start.bytes()
	if c := a.Claimed; c != nil {
		rest += claimBytes + len(c.Caller) + len(c.ActingUser()) + len(c.RequestID) + labelBytes(c.Labels) + resourceBytes(&c.Requested) + resourceBytes(&c.Entitled)
	}
	return int64(asked + max(rest, grown))
}

func labelBytes(set label.Set) (n int) {
	for i := range set {
		n += pairBytes + len(set[i].Key) + len(set[i].Value)
	}
	return n
}

func textsBytes(list []string) (n int) {
	for _, text := range list {
		n += textBytes + len(text)
	}
	return n
}

func resourceBytes(r *resource.Resource) int {
	n := quantityBytesOf(&r.Vector)
	for i := range r.External {
		x := &r.External[i]
		n += externalBytes + len(x.Kind) + len(x.Cluster) + len(x.Path) + len(x.Partition) + quantityBytesOf(&x.Vector)
	}
	return n
}

func quantityBytesOf(v *resource.Vector) int {
	n := vectorBytes
	for _, q := range v.Custom() {
		n += quantityBytes + len(q.Name)
	}
	return n
}

// LiveFullError refuses a request, or a row's growth, because the live allocations of its caller
// have reached their bound.
type LiveFullError struct {
	// Caller is a caller, or all callers of a host's agent together.
	Caller string
	// Bytes is the size of these allocations, Most their bound.
	Bytes, Most int64
}

func (e *LiveFullError) Error() string {
	return fmt.Sprintf("%s: live allocations (waiting, reserved and active) take %d bytes: want at most %d (limits.callerLiveBytes): try again when some of them have ended",
		e.Caller, e.Bytes, e.Most)
}

// overhead returns the largest memory of the allocation beyond the bytes of its row, as it counts
// on its caller, and the row of its launch in the store. The user's part of each part's own queue
// counts like a queue. The overhead changes only if a part follows its application, or the row of
// the launch is deleted: no Confirm or Resize adds a part or moves one elsewhere.
func (a *Allocation) overhead() int64 {
	bytes := int64(LiveOverhead + QueueOverhead*(queuesOf(a.Entitled.External)+len(a.Entitled.External)))
	if launch := a.Launch(); launch != nil {
		bytes += int64(launch.RowBytes)
	}
	return bytes
}

// queuesOf returns the number of queues in which parts count, including those above, if no two
// parts share a queue.
func queuesOf(parts []resource.External) (n int) {
	for i := range parts {
		n += 1 + strings.Count(parts[i].Path, ".")
	}
	return n
}

// usage is the sum of the live allocations of one caller, or of all callers of one host.
type usage struct {
	name    string
	host    bool // the usage of all callers of a host's agent; name is the host's
	bytes   int64
	most    int64 // the bound of bytes
	onHosts int64 // the bytes that they count with on all hosts together
	largest int64 // the sum of their largest quantities
	live    int
}

// who returns the name for errors and warnings.
func (t *usage) who() string {
	if t.host {
		return "callers of host " + t.name
	}
	return fmt.Sprintf("caller %q", t.name)
}

// full reports whether the usage is near its bound: the rest is less than a twentieth of it, or
// less than the largest request may take.
func (t *usage) full() bool { return t.bytes > 0 && t.most-t.bytes < max(t.most/20, largestLive) }

// usages are the usages with live allocations, by name.
type usages map[string]*usage

func (t usages) of(name string) int64 {
	if has := t[name]; has != nil {
		return has.bytes
	}
	return 0
}

// acquire returns the usage of a name for one more live allocation. It makes the usage for the
// first one; release removes it after the last one.
func (t usages) acquire(name string, most int64) *usage {
	has := t[name]
	if has == nil {
		has = &usage{name: name, most: most}
		t[name] = has
	}
	has.live++
	return has
}

func (t usages) release(has *usage) {
	if has.live--; has.live == 0 {
		delete(t, has.name)
	}
}

// relayed reports whether only the agent of its host vouches for the allocation's caller: because
// it was adopted, or because the request came through that agent. Such a request names its host,
// and the names of its callers end in the host's.
func (a *Allocation) relayed() bool {
	w := a.Wishes
	return a.Adopted() || w != nil && w.Host != "" && strings.HasSuffix(a.Caller, "@"+w.Host)
}

// affords checks that the usages of an allocation may grow by so many bytes. All callers of one
// host's agent together may have as much as any other caller. Each of them may have half of it, so
// that the rest is left to the others. The error is a *LiveFullError.
func (l *Ledger) affords(a *Allocation, more int64) error {
	most := l.cfg.CallerLiveBytes
	if a.relayed() {
		if bytes := l.relays.of(a.HostID); bytes+more > most {
			return &LiveFullError{Caller: "callers of host " + a.HostID, Bytes: bytes, Most: most}
		}
		most /= 2
	}
	if bytes := l.callers.of(a.Payer()); !a.Adopted() && bytes+more > most {
		return &LiveFullError{Caller: fmt.Sprintf("caller %q", a.Payer()), Bytes: bytes, Most: most}
	}
	return nil
}

// mayGrow checks that a live allocation may become next: its host and its caller must have room for
// it. The row's own reserve may always be used. Errors: *LiveFullError, *InsufficientError.
func (l *Ledger) mayGrow(e *entry, next *Allocation) error {
	more := next.LiveBytes() - int64(e.bytes)
	if more <= 0 {
		return nil
	}
	if h := e.host; h != nil {
		s := h.account.closedShortfall(e.request(), NoteRefused)
		if h.bytes+more > l.cfg.HostLiveBytes {
			s.Detail = h.fullText(l.cfg.HostLiveBytes)
			return &InsufficientError{Reason: ReasonRefused, Shortfalls: []Shortfall{s}}
		}
		if e.caller != nil && h.bytes+more > l.hostShare() {
			if has := h.bytesOf(e.caller); has+more > l.hostShare() {
				s.Detail = l.crowdedText(e.caller.name, has)
				return &InsufficientError{Reason: ReasonRefused, Shortfalls: []Shortfall{s}}
			}
		}
	}
	return l.affords(&e.Allocation, more)
}

// updateBytes updates the counted size of an entry's row.
func (l *Ledger) updateBytes(e *entry) {
	bytes := e.LiveBytes()
	more := bytes - int64(e.bytes)
	if more == 0 {
		return
	}
	e.bytes = int32(bytes) //nolint:gosec // rows have some KiB
	l.countCallerBytes(e, more)
	if e.host != nil {
		l.countHostBytes(e, e.host, more)
	}
}

// countCallerBytes adds bytes of an entry to its caller, and to all callers of its agent together.
func (l *Ledger) countCallerBytes(e *entry, more int64) {
	for _, t := range [...]*usage{e.caller, e.relay} {
		if t == nil {
			continue
		}
		if t.bytes += more; t.full() {
			l.full[t] = struct{}{}
		} else {
			delete(l.full, t)
		}
	}
}

// addUsage counts a new entry on its caller.
func (l *Ledger) addUsage(e *entry) {
	most := l.cfg.CallerLiveBytes
	if e.relayed() {
		e.relay = l.relays.acquire(e.HostID, most)
		e.relay.host = true
		most /= 2
	}
	if !e.Adopted() {
		e.caller = l.callers.acquire(e.Payer(), most)
		if !e.Subordinate {
			e.Caller = e.caller.name // one text for all
		}
	}
	l.countLargest(e, largest(&e.Entitled))
	l.countCallerBytes(e, e.overhead())
	l.updateBytes(e)
}

// removeUsage removes an ended entry from the usages.
func (l *Ledger) removeUsage(e *entry) {
	l.countLargest(e, -largest(&e.Entitled))
	l.countCallerBytes(e, -int64(e.bytes)-e.overhead())
	if e.caller != nil {
		l.callers.release(e.caller)
	}
	if e.relay != nil {
		l.relays.release(e.relay)
	}
}

// FullCallers returns the callers whose live allocations are near their bound, by name, each as the
// error of a refusal.
func (l *Ledger) FullCallers() []LiveFullError {
	list := make([]LiveFullError, 0, len(l.full))
	for t := range l.full {
		list = append(list, LiveFullError{Caller: t.who(), Bytes: t.bytes, Most: t.most})
	}
	slices.SortFunc(list, func(a, b LiveFullError) int { return strings.Compare(a.Caller, b.Caller) })
	return list
}

// hostBytes returns the entry's bytes on its host: its row as it was last recorded, and its
// charges.
func (e *entry) hostBytes() int64 {
	return int64(e.bytes) + ChargeOverhead*int64(len(e.queueCharges()))
}

// countHostBytes adds bytes of an entry's row to its host, and to the entry's caller there. The
// host may close for new grants, or open again, for all or for that caller. Adopted engines count
// on no caller, because only the agent names their callers.
func (l *Ledger) countHostBytes(e *entry, h *host, more int64) {
	h.bytes += more
	if e.caller != nil {
		e.caller.onHosts += more
	}
	switch most := l.hostShare(); {
	case h.callers != nil:
		if had := h.callers[e.caller]; h.countCaller(e.caller, more) < most && had >= most {
			l.freed(&h.account)
		}
		if h.bytes < most/2 {
			h.callers = nil
		}
	case h.bytes >= most:
		h.countCallers()
	}
	switch full := h.bytes >= l.cfg.HostLiveBytes; {
	case full == (h.full != ""):
	case full:
		h.full = h.fullText(l.cfg.HostLiveBytes)
		l.updatePlacer(h)
	default:
		h.full = ""
		l.updatePlacer(h)
		l.freed(&h.account)
	}
}

// countCallers counts the bytes of each caller on the host from its allocations.
func (h *host) countCallers() {
	h.callers = make(map[*usage]int64)
	for _, e := range h.entries {
		h.countCaller(e.caller, e.hostBytes())
	}
}

// countCaller counts bytes of a caller on the host, and returns how many it has there.
func (h *host) countCaller(caller *usage, more int64) int64 {
	if caller == nil {
		return 0
	}
	has := h.callers[caller] + more
	if h.callers[caller] = has; has == 0 {
		delete(h.callers, caller)
	}
	return has
}

// bytesOf is how many bytes a caller has on the host.
func (h *host) bytesOf(caller *usage) (bytes int64) {
	if h.callers != nil || caller == nil {
		return h.callers[caller]
	}
	for _, e := range h.entries {
		if e.caller == caller {
			bytes += e.hostBytes()
		}
	}
	return bytes
}

func (h *host) fullText(most int64) string {
	return fmt.Sprintf("the allocations on it take %d bytes, and its agent can be sent at most %d: more when some have ended", h.bytes, most)
}

// hostShare is how many bytes of a host's rows one caller may have and still get a new grant there.
func (l *Ledger) hostShare() int64 { return max(1, l.cfg.HostLiveBytes/hostShare) }

// crowded reports whether the host is closed for new grants to the caller of an entry, which may
// be in no table yet. If all callers together have less than one may have, it does not look for
// the caller.
func (l *Ledger) crowded(e *entry, h *host) bool {
	return h.bytes >= l.hostShare() && h.callers[l.callers[e.Payer()]] >= l.hostShare()
}

// mayCrowd reports whether any host may be closed to the caller of an entry: the caller has as
// much on all hosts together as it may have on one.
func (l *Ledger) mayCrowd(e *entry) bool {
	has := l.callers[e.Payer()]
	return has != nil && has.onHosts >= l.hostShare()
}

func (l *Ledger) crowdedText(caller string, has int64) string {
	return fmt.Sprintf("the allocations of caller %q on it take %d bytes, and one caller may have at most %d there: more when some of them have ended",
		caller, has, l.hostShare())
}

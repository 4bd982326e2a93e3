package core

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Origin is the origin of a command. It costs nothing until a command makes the ledger panic: only
// then are commands of the same caller and procedure hashed.
type Origin struct {
	// Procedure is the path of the call, or a text about the coordinator's own work.
	Procedure string
	// Caller is the caller's name; empty: this coordinator.
	Caller string
	// Message is the request. It must not change any more.
	Message proto.Message
	// Detail distinguishes commands without a message.
	Detail string
}

// RefusedError answers a command that has made the ledger panic before.
type RefusedError struct{ Refusal ledger.Refusal }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("refused: the same request made the coordinator fail at %s (%s): change it, or tell the operator of the coordinator; "+
		"the coordinator's log has the cause under %s", e.Refusal.At.Time().UTC().Format(time.RFC3339), e.Refusal.Cause, e.Refusal.ID())
}

const (
	// mostRefused bounds the commands that a version refuses. Beyond it, the oldest is accepted
	// again and may cost another leadership. Each version has this bound for itself: if they shared
	// it, versions that lead in turns would drop each other's refusals.
	mostRefused = 256
	// mostVersions bounds all refusals together, to so many versions. A cluster has two during an
	// upgrade.
	mostVersions = 4
	// RefusedFor is how long a command is refused.
	RefusedFor = 24 * time.Hour
)

// mostCause bounds the stored text of a panic, in bytes. The log has the full text.
const mostCause = 200

// RefusedSet has the refused commands: those in the store and those that the store gets next, the
// oldest first.
type RefusedSet struct {
	list []refusal
	// version is that of this coordinator: a command that made another version panic may not make
	// this one panic.
	version string
	// origins counts the refusals of this version by procedure and caller: only commands of these
	// are hashed.
	origins map[originKey]int
	// unkept counts the refusals that the store does not have yet, and gone has the ids that it
	// must still delete.
	unkept int
	gone   []string
}

type refusal struct {
	ledger.Refusal

	kept bool // the store has it
}

type originKey struct{ procedure, caller string }

// restore takes the store's refusals, except expired ones, and adds those that the store did not
// get in an earlier leadership. Times later than now count as now, and time without a leader does
// not count.
func (r *RefusedSet) restore(stored []ledger.Refusal, outages ledger.Outages, now ledger.Instant) {
	all := slices.DeleteFunc(r.list, func(known refusal) bool { return known.kept })
	for i := range stored {
		all = append(all, refusal{stored[i], true})
	}
	slices.SortStableFunc(all, func(a, b refusal) int { return cmp.Compare(a.At, b.At) })
	*r = RefusedSet{version: r.version}
	for i := range all {
		all[i].At = min(outages.After(all[i].At, RefusedFor).Add(-RefusedFor), now)
		r.put(all[i])
	}
	r.expire(now)
}

// Add refuses a command from now on.
func (r *RefusedSet) Add(o *Origin, now ledger.Instant, cause string) {
	if len(cause) > mostCause {
		cause = strings.ToValidUTF8(cause[:mostCause], "") + "…"
	}
	r.put(refusal{Refusal: ledger.Refusal{
		Procedure: o.Procedure, Caller: o.Caller, Hash: o.Hash(), At: now, Cause: cause, Version: r.version,
	}})
}

func (r *RefusedSet) put(added refusal) {
	if i := slices.IndexFunc(r.list, func(other refusal) bool { return other.Same(&added.Refusal) }); i >= 0 {
		r.drop(i)
	}
	first, count := -1, 0 // of the same version
	for i := range r.list {
		if r.list[i].Version != added.Version {
			continue
		}
		if count++; first < 0 {
			first = i
		}
	}
	switch {
	case count >= mostRefused:
		r.drop(first)
	case len(r.list) >= mostRefused*mostVersions:
		r.drop(0)
	}
	if r.list = append(r.list, added); !added.kept {
		r.unkept++
	}
	if added.Version == r.version {
		if r.origins == nil {
			r.origins = make(map[originKey]int)
		}
		r.origins[originKey{added.Procedure, added.Caller}]++
	}
}

func (r *RefusedSet) drop(i int) {
	dropped := &r.list[i]
	if dropped.kept {
		r.gone = append(r.gone, dropped.ID())
	} else {
		r.unkept--
	}
	if dropped.Version == r.version {
		key := originKey{dropped.Procedure, dropped.Caller}
		if r.origins[key]--; r.origins[key] == 0 {
			delete(r.origins, key)
		}
	}
	r.list = slices.Delete(r.list, i, i+1)
}

func (r *RefusedSet) expire(now ledger.Instant) {
	for len(r.list) > 0 && r.list[0].At.Add(RefusedFor) <= now {
		r.drop(0)
	}
}

// Of returns the refusal of a command; nil if it is not refused.
func (r *RefusedSet) Of(o *Origin, now ledger.Instant) *ledger.Refusal {
	r.expire(now)
	if o == nil || r.origins[originKey{o.Procedure, o.Caller}] == 0 {
		return nil
	}
	hash := o.Hash()
	for i := range r.list {
		if r.list[i].Hash == hash && r.list[i].Version == r.version {
			return &r.list[i].Refusal
		}
	}
	return nil
}

// changes adds to a batch the refusals that the store does not have yet, and the ids of those that
// it must delete.
func (r *RefusedSet) changes(batch *ledger.Changes) {
	for i := range r.list {
		if !r.list[i].kept {
			batch.Refusals = append(batch.Refusals, r.list[i].Refusal)
		}
	}
	batch.RefusalsRemoved, r.gone = r.gone, nil
}

// keep says that a batch with these refusals is durable.
func (r *RefusedSet) keep(durable []ledger.Refusal) {
	for i := range durable {
		for k := range r.list {
			if known := &r.list[k]; !known.kept && known.Same(&durable[i]) {
				known.kept = true
				r.unkept--
			}
		}
	}
}

// Hash is the same for repeats of a command.
func (o *Origin) Hash() [sha256.Size]byte {
	text := []byte(o.Procedure + "\x00" + o.Caller + "\x00" + o.Detail + "\x00")
	if o.Message != nil {
		// a decoded message can be encoded
		text, _ = proto.MarshalOptions{Deterministic: true}.MarshalAppend(text, lasting(o.Message))
	}
	return sha256.Sum256(text)
}

// lasting returns a message without the parts that differ in each repeat.
func lasting(message proto.Message) proto.Message {
	switch m := message.(type) {
	case *bursarv1.SyncRequest:
		return lastingReport(m)
	case *bursarv1.RegisterRequest:
		m = proto.CloneOf(m)
		m.Epoch, m.Leadership, m.Incarnation = 0, 0, 0
		return m
	case *bursarv1.AllocateRequest:
		m = proto.CloneOf(m)
		m.RequestId, m.Wait = "", nil
		return m
	case *bursarv1.ExplainRequest:
		m = proto.CloneOf(m)
		if r := m.GetRequest(); r != nil {
			r.RequestId, r.Wait = "", nil
		}
		return m
	default:
		return message
	}
}

// lastingReport returns the host of a heartbeat and the ids of its engines. All numbers differ from
// one heartbeat to the next, and the number that made the ledger panic is likely to come again
// among others. So heartbeats with good numbers are refused, too. The host does not become lost
// because of that: see Report.refused.
func lastingReport(m *bursarv1.SyncRequest) proto.Message {
	same := &bursarv1.SyncRequest{HostId: m.GetHostId(), Capacity: m.GetCapacity()}
	for _, engine := range m.GetEngines() {
		same.Engines = append(same.Engines, &bursarv1.EngineReport{AllocationId: engine.GetAllocationId()})
	}
	for _, end := range m.GetEnded() {
		same.Ended = append(same.Ended, &bursarv1.EngineEnd{AllocationId: end.GetAllocationId()})
	}
	for _, veto := range m.GetVetoes() {
		same.Vetoes = append(same.Vetoes, &bursarv1.Veto{AllocationId: veto.GetAllocationId()})
	}
	return same
}

// SetVersion sets the version of this coordinator, for the next Lead: only commands that made a
// ledger of this version panic are refused.
func (c *Core) SetVersion(version string) { c.refused.version = version }

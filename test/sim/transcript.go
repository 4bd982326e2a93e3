package sim

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/resource"
)

// transcript is two hashes over all that happens in a world. They depend on values only: on no
// name of a file, package, type, function or field. So they stay the same when code moves or is
// renamed.
//
//   - deeds is over what is done: the time and order of each event, each batch (its revision and
//     its transitions, with state, host and amounts), who was answered in which batch and with
//     which kind of answer, the final state in numbers, and how much randomness was drawn.
//   - words is over everything that is said as well: each line of the story, the bytes of each
//     row, the bytes of each message to and from agents, callers and coordinators, and each
//     error's text.
//
// A change of a printed sentence changes words only.
type transcript struct {
	deeds, words sum
	buffer       []byte // for messages and rows
}

// String is the transcript's line in testdata/transcripts.txt, without the seed.
func (t *transcript) String() string { return t.deeds.short() + " " + t.words.short() }

// sum is a hash of numbers and texts, in their order.
type sum uint64

// number takes in a number, as one round of splitmix64 does it.
func (s *sum) number(n uint64) {
	x := bits.RotateLeft64(uint64(*s), 5) ^ n
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	*s = sum(x ^ x>>31)
}

func (s *sum) numbers(list ...uint64) {
	for _, n := range list {
		s.number(n)
	}
}

func (s *sum) flag(set bool) {
	if set {
		s.number(1)
	} else {
		s.number(2)
	}
}

// bytes takes in a text, with its length.
func (s *sum) bytes(b []byte) {
	s.number(uint64(len(b)))
	for ; len(b) >= 8; b = b[8:] {
		s.number(binary.LittleEndian.Uint64(b))
	}
	var rest [8]byte
	copy(rest[:], b)
	s.number(binary.LittleEndian.Uint64(rest[:]))
}

func (s *sum) text(text string) { s.bytes([]byte(text)) }

// vector takes in the quantities, by their dimensions.
func (s *sum) vector(v resource.Vector) {
	for dimension, quantity := range v.All() {
		s.text(dimension)
		s.number(uint64(quantity)) //nolint:gosec // the bits matter
	}
	s.number(0)
}

func (s sum) short() string { return fmt.Sprintf("%08x", uint32(s>>32^s)) } //nolint:gosec // half of it is enough

// event takes in that something begins to happen.
func (t *transcript) event(at time.Duration, order uint64) {
	t.deeds.numbers(uint64(at), order) //nolint:gosec // never negative
}

// line takes in a line of the story.
func (t *transcript) line(line string) { t.words.text(line) }

// batch takes in what a coordinator has decided since its last batch, whether or not it becomes
// durable.
func (t *transcript) batch(b *store.Batch) {
	t.deeds.numbers(b.Epoch, b.Revision, uint64(b.LastID), uint64(b.Time)) //nolint:gosec // the bits matter
	t.deeds.flag(b.KeepTime)
	for i := range b.Transitions {
		t.allocation(&b.Transitions[i])
	}
	for i := range b.Hosts {
		t.host(&b.Hosts[i])
	}
	for i := range b.Quotas {
		q := &b.Quotas[i]
		t.deeds.text(q.Selector.String())
		t.deeds.vector(q.Limit)
		t.deeds.vector(q.Guaranteed)
		t.deeds.number(uint64(q.Weight)) //nolint:gosec // the bits matter
		t.words.text(q.Source)
	}
	for i := range b.Providers {
		p := &b.Providers[i]
		t.deeds.text(p.String())
		t.deeds.flag(p.Default)
		for _, key := range slices.Sorted(maps.Keys(p.Settings)) {
			t.words.text(key)
			t.words.text(p.Settings[key])
		}
		t.words.text(p.Source)
	}
	for i := range b.Refusals {
		t.words.text(b.Refusals[i].Cause)
	}
	for _, removed := range [][]string{b.HostsRemoved, b.QuotasRemoved, b.RefusalsRemoved} {
		t.deeds.number(uint64(len(removed)))
		for _, key := range removed {
			t.deeds.text(key)
		}
	}
	for _, name := range b.ProvidersRemoved {
		t.deeds.text(name.String())
	}
}

// allocation takes in one, with the bytes of its row.
func (t *transcript) allocation(a *ledger.Allocation) {
	t.deeds.numbers(uint64(a.ID), uint64(a.State), a.Revision, uint64(a.Expires), uint64(a.WaitDeadline)) //nolint:gosec // the bits matter
	t.deeds.text(a.HostID)
	t.deeds.vector(a.Entitled.Vector)
	for i := range a.Entitled.External {
		part := &a.Entitled.External[i]
		t.deeds.text(part.Kind)
		t.deeds.text(part.Cluster)
		t.deeds.text(part.Path)
		t.deeds.text(part.Partition)
		t.deeds.vector(part.Vector)
	}
	row, err := store.AppendAllocation(t.buffer[:0], a)
	t.words.bytes(row)
	t.failure(err)
	t.words.flag(a.Forget)
	t.buffer = row[:0]
}

func (t *transcript) host(h *ledger.HostRecord) {
	t.deeds.text(h.ID)
	t.deeds.vector(h.Capacity)
	t.deeds.vector(h.Protected)
	t.deeds.numbers(uint64(h.Registered), uint64(h.StopTime), h.Incarnation, h.Revision) //nolint:gosec // the bits matter
	t.deeds.flag(h.Cordoned)
	t.deeds.flag(h.Draining)
	t.deeds.flag(h.Lost)
	for _, l := range h.Labels {
		t.words.text(l.Key)
		t.words.text(l.Value)
	}
	for _, text := range []string{h.Address, h.Reason, h.BootID, h.Version, h.MachineID, h.PIDNamespace} {
		t.words.text(text)
	}
}

// failure takes in whether something has failed, and its text.
func (t *transcript) failure(err error) {
	t.deeds.flag(err == nil)
	if err != nil {
		t.words.text(err.Error())
	}
}

// answer takes in the answer of a coordinator to a caller or an agent.
func (t *transcript) answer(a *answer) {
	t.deeds.numbers(a.epoch, a.revision)
	t.failure(a.broken)
	switch value := a.value.(type) {
	case answerTo:
		t.failure(value.err)
		if value.allocation != nil {
			t.deeds.text(value.allocation.GetId())
			t.deeds.number(uint64(value.allocation.GetState())) //nolint:gosec // never negative
			t.message(value.allocation)
		}
	case hostAnswer:
		if message, ok := value.message.(proto.Message); ok {
			t.message(message)
		}
	case error:
		t.failure(value)
	}
}

// message takes in a message between a coordinator and anybody.
func (t *transcript) message(m proto.Message) {
	bytes, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(t.buffer[:0], m)
	t.words.bytes(bytes)
	t.failure(err)
	t.buffer = bytes[:0]
}

// end takes in the final state of the world.
func (t *transcript) end(w *World) {
	for _, c := range w.coords {
		t.deeds.flag(c.up() && c.core.Leading())
		if c.up() && c.core.Leading() {
			t.ledger(c.core.Ledger())
		}
	}
	for _, m := range w.hosts {
		t.machine(m)
	}
	t.deeds.numbers(w.order, uint64(w.tally.Steps), uint64(len(w.callers.granted))) //nolint:gosec // never negative
	if source, err := w.source.MarshalBinary(); err == nil {
		t.deeds.bytes(source)
	}
	t.failure(w.fault)
}

// ledger adds the state of the leader's ledger.
func (t *transcript) ledger(l *ledger.Ledger) {
	t.deeds.number(l.Revision())
	l.Allocations(0, func(a *ledger.Allocation) bool {
		t.allocation(a)
		return true
	})
	l.Hosts("", func(h ledger.HostInfo) bool {
		t.host(&h.HostRecord)
		t.deeds.numbers(uint64(h.State), uint64(h.LastSync)) //nolint:gosec // the bits matter
		t.words.text(h.Unavailable)
		t.account(&h.Account)
		return true
	})
	l.QuotaAccounts("", func(key string, a ledger.AccountInfo) bool {
		t.deeds.text(key)
		t.account(&a)
		return true
	})
	l.Queues(resource.Address{}, func(q ledger.QueueInfo) bool {
		t.deeds.text(q.Address.String())
		t.deeds.flag(q.Known)
		t.deeds.vector(q.Available)
		t.words.text(q.Unavailable)
		t.account(&q.Account)
		return true
	})
}

func (t *transcript) account(a *ledger.AccountInfo) {
	for _, v := range []resource.Vector{a.Limit, a.Protected, a.Used, a.Reserved, a.Others, a.Available} {
		t.deeds.vector(v)
	}
	t.deeds.numbers(uint64(a.Allocations), uint64(a.Waiting), uint64(a.HeldFor)) //nolint:gosec // never negative
	t.deeds.flag(a.OverLimit)
	t.words.text(a.Name.String())
}

// machine takes in what an agent knows at the end, and what runs there.
func (t *transcript) machine(m *machine) {
	for _, pid := range m.pids() {
		p := m.processes[pid]
		t.deeds.numbers(uint64(pid), p.start, uint64(p.touched), uint64(p.cache)) //nolint:gosec // never negative
		t.deeds.text(p.id)
	}
	t.deeds.flag(m.agent.up())
	if !m.agent.up() {
		return
	}
	s := m.agent.t.Snapshot()
	t.deeds.numbers(s.Epoch, s.Leadership, uint64(len(s.Engines)), uint64(len(s.Ended)))
	t.words.text(s.StoreID)
	t.words.text(s.BootID)
	for _, e := range s.Engines {
		t.message(e)
	}
	for _, e := range s.Ended {
		t.message(e)
	}
}

// newSource is the randomness of a world, which its seed gives.
func newSource(seed uint64) *rand.PCG { return rand.NewPCG(seed, 0x6275727361720a) }

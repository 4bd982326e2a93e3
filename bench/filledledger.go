package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// pairTime is the advance of the ledger's clock per pair: the budget for a pair.
const pairTime = 2500 * time.Nanosecond

// filledLedger is a ledger with hosts and rules, as in a coordinator, with a user. Only one
// goroutine uses it.
type filledLedger struct {
	ledger  *ledger.Ledger
	now     ledger.Instant
	actor   identity.Actor
	sets    []label.Set
	request resource.Resource
	// Request number i has the part at index i modulo their number; empty: requests have no parts.
	parts  []resource.External
	wishes *ledger.Wishes
	batch  int

	live   []ledger.ID
	next   int // number of the next request
	since  int // commands since the last Changes
	random *rand.Rand
	name   []byte
}

// newFilledLedger makes equal hosts, healthy and measured, and sets the rules.
func newFilledLedger(w *workload, hosts int) (*filledLedger, error) {
	b := &filledLedger{
		// There are no reports and no confirmations: hosts and reservations must not expire. One
		// caller makes all requests.
		ledger: ledger.New(ledger.Config{
			Interval: 1000 * time.Hour, ReservationTTL: 1000 * time.Hour, CallerLiveBytes: 1 << 40,
			RequestRetention: time.Duration(max(1, w.Remembered)) * pairTime,
		}, placement.New(placement.Spread)),
		now:    ledger.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)),
		actor:  identity.Actor{Name: "launcher@host", Anyone: true},
		batch:  w.Batch,
		random: rand.New(rand.NewPCG(w.Seed, 0)),
	}
	var err error
	if b.sets, err = w.sets(); err != nil {
		return nil, err
	}
	if b.request, err = w.request(); err != nil {
		return nil, err
	}
	capacity, err := w.Host.vector()
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	for i := range hosts {
		if err := addHost(b.ledger, b.now, hostName(i), capacity, w.hostLabels(i)); err != nil {
			return nil, err
		}
	}
	quotas, err := w.quotas()
	if err != nil {
		return nil, err
	}
	if err := b.ledger.SetQuotas(b.now, ledger.SourceAPI, quotas); err != nil {
		return nil, err
	}
	b.drain()
	return b, nil
}

func hostName(i int) string { return fmt.Sprintf("host-%06d.example.org", i) }

// hostLabels are those of host number i.
func (w *workload) hostLabels(i int) label.Set {
	if w.Racks == 0 {
		return nil
	}
	return label.Of("cores", "64", "rack", strconv.Itoa(i%w.Racks))
}

// addHost registers a host and reports all its memory as free.
func addHost(l *ledger.Ledger, now ledger.Instant, id string, capacity resource.Vector, labels label.Set) error {
	if _, err := l.Register(now, ledger.RegisterCommand{
		HostID: id, Address: id + ":7071", Capacity: capacity, Incarnation: 1, BootID: "boot", Labels: labels,
	}); err != nil {
		return err
	}
	available := capacity.Memory()
	_, err := l.Sync(now, ledger.SyncCommand{
		HostID: id, Incarnation: 1, Sequence: 1, BootID: "boot", Full: true,
		Sample: &ledger.Sample{MemoryTotal: &available, MemoryAvailable: &available},
	})
	return err
}

// drain takes the changes from the ledger, like a commit.
func (b *filledLedger) drain() {
	b.since = 0
	changes := b.ledger.Changes()
	b.ledger.Durable(b.now, changes.Revision)
	b.ledger.Reuse(&changes)
}

func (b *filledLedger) done() {
	if b.since++; b.since >= b.batch {
		b.drain()
	}
}

// command returns the next request: with a unique name, and the labels of its number.
func (b *filledLedger) command() ledger.AllocateCommand {
	b.name = strconv.AppendInt(append(b.name[:0], "7d9f3f4e-request-"...), int64(b.next), 10)
	c := ledger.AllocateCommand{
		Actor: b.actor, RequestID: string(b.name), RequestHash: uint64(b.next), //nolint:gosec // a number
		Labels: b.sets[b.next%len(b.sets)], Resource: b.request, Wishes: b.wishes,
	}
	if len(b.parts) > 0 {
		at := b.next % len(b.parts)
		c.Resource.External = b.parts[at : at+1 : at+1]
	}
	b.next++
	return c
}

// allocate makes one request, which must be granted.
func (b *filledLedger) allocate(c ledger.AllocateCommand) (ledger.ID, error) {
	r, err := b.ledger.Allocate(b.now, c)
	if err != nil {
		return 0, err
	}
	if r.Allocation.State != ledger.Reserved {
		return 0, fmt.Errorf("request %s is %s: want room for it", c.RequestID, r.Allocation.State)
	}
	b.done()
	return r.Allocation.ID, nil
}

func (b *filledLedger) release(id ledger.ID) error {
	_, err := b.ledger.Release(b.now, ledger.ReleaseCommand{Actor: b.actor, ID: id})
	b.done()
	return err
}

// fill makes so many allocations.
func (b *filledLedger) fill(live int) error {
	for range live {
		id, err := b.allocate(b.command())
		if err != nil {
			return err
		}
		b.live = append(b.live, id)
	}
	return nil
}

// pairs makes one allocation and ends another one, n times.
func (b *filledLedger) pairs(n int) error {
	for range n {
		b.now = b.now.Add(pairTime)
		id, err := b.allocate(b.command())
		if err != nil {
			return err
		}
		at := b.random.IntN(len(b.live))
		if err := b.release(b.live[at]); err != nil {
			return err
		}
		b.live[at] = id
	}
	return nil
}

// wait makes requests that wait for an account, which allocations of the largest size fill.
func (b *filledLedger) wait(n, sizes int, labels label.Set) error {
	limit := ledger.AllocateCommand{Actor: b.actor, Labels: labels, Resource: b.times(sizes)}
	for {
		if _, err := b.ledger.Allocate(b.now, limit); err != nil {
			break // it is full
		}
	}
	for i := range n {
		c := b.command()
		c.Labels, c.Resource = labels, b.times(1+i%sizes)
		c.Wait, c.Async = 24*time.Hour, true
		r, err := b.ledger.Allocate(b.now, c)
		if err != nil {
			return err
		}
		if r.Allocation.State != ledger.Waiting {
			return fmt.Errorf("request %s is %s: want it to wait", c.RequestID, r.Allocation.State)
		}
		b.done()
	}
	return nil
}

// times returns the request with its memory multiplied.
func (b *filledLedger) times(n int) resource.Resource {
	r := b.request
	r.Vector = r.WithMemory(r.Memory() * int64(n))
	return r
}

// audit verifies the state after the measurement.
func (b *filledLedger) audit() error {
	if found := b.ledger.Audit(); len(found) > 0 {
		return fmt.Errorf("%d violations of the ledger, the first: %s", len(found), found[0].Message)
	}
	return nil
}

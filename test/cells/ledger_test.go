package cells

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// gib is one unit of the limit.
const gib = 1 << 30

var began = ledger.At(time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC))

// ledgerBooks is a real ledger with hosts, and one rule: the limit of tenant acme in this cell.
type ledgerBooks struct {
	tb     testing.TB
	ledger *ledger.Ledger
	labels label.Set
	rule   label.Selector
	ids    map[int]ledger.ID
}

func newLedgerBooks(tb testing.TB, hosts int) *ledgerBooks {
	tb.Helper()
	rule, err := label.ParseSelector("tenant=acme")
	if err != nil {
		tb.Fatal(err)
	}
	b := &ledgerBooks{
		tb: tb, rule: rule, labels: label.Of("tenant", "acme", "user", "alice"), ids: make(map[int]ledger.ID),
		// No host reports and no engine confirms here, so hosts and reservations must not expire.
		ledger: ledger.New(ledger.Config{Interval: 1000 * time.Hour, ReservationTTL: 1000 * time.Hour, CallerLiveBytes: 1 << 40}, placement.New(placement.Spread)),
	}
	available := int64(256 * gib)
	for i := range hosts {
		id := fmt.Sprintf("host-%d", i)
		_, err := b.ledger.Register(began, ledger.RegisterCommand{HostID: id, Incarnation: 1, Capacity: memory(256)})
		b.must(err)
		_, err = b.ledger.Sync(began, ledger.SyncCommand{
			HostID: id, Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available},
		})
		b.must(err)
	}
	b.SetLimit(0, 0)
	return b
}

func memory(units int) resource.Vector { return resource.Vector{}.WithMemory(int64(units) * gib) }

func (b *ledgerBooks) must(err error) {
	b.tb.Helper()
	if err != nil {
		b.tb.Fatal(err)
	}
}

// stored does the work of a commit.
func (b *ledgerBooks) stored(at ledger.Instant) {
	changes := b.ledger.Changes()
	b.ledger.Durable(at, changes.Revision)
}

func (b *ledgerBooks) SetLimit(now time.Duration, units int) {
	at := began.Add(now)
	b.must(b.ledger.SetQuotas(at, ledger.SourceAPI, []ledger.Quota{{Selector: b.rule, Limit: memory(units)}}))
	b.stored(at)
}

func (b *ledgerBooks) Allocate(now time.Duration, r Request) bool {
	at := began.Add(now)
	result, err := b.ledger.Allocate(at, ledger.AllocateCommand{
		Actor: identity.Local(), RequestID: fmt.Sprint(r.ID), Labels: b.labels, Resource: resource.NewResource(memory(r.Units)),
	})
	if _, short := errors.AsType[*ledger.InsufficientError](err); short {
		return false
	}
	b.must(err)
	b.ids[r.ID] = result.Allocation.ID
	b.stored(at)
	return true
}

func (b *ledgerBooks) Release(now time.Duration, id int) {
	at := began.Add(now)
	_, err := b.ledger.Release(at, ledger.ReleaseCommand{Actor: identity.Local(), ID: b.ids[id]})
	b.must(err)
	delete(b.ids, id)
	b.stored(at)
}

// Used returns the use in the account of the rule.
func (b *ledgerBooks) Used() int {
	bytes := int64(0)
	b.ledger.QuotaAccounts("", func(_ string, a ledger.AccountInfo) bool {
		bytes += a.Used.Memory() + a.Reserved.Memory()
		return true
	})
	return int(bytes / gib)
}

type grant struct {
	at       time.Duration
	cell, id int
}

// Five real ledgers with a hundred hosts each get the same demand and the same faults as five
// numbers. They grant the same requests in the same seconds, and never more than the limit in
// total.
func TestRealLedgersGrantWhatSimulatedCellsGrant(t *testing.T) {
	const cells, hosts, limit = 5, 100, 500
	for _, stops := range []bool{false, true} {
		for _, pattern := range patterns() {
			t.Run(fmt.Sprintf("%s, engines are stopped: %t", pattern, stops), func(t *testing.T) {
				var grants [2][]grant
				for way := range 2 {
					cfg := faulty(Config{Cells: cells, Limit: limit, Pattern: pattern, Demand: 1.2, Seed: 7, Stops: stops})
					cfg.Granted = func(now time.Duration, cell int, r Request) {
						grants[way] = append(grants[way], grant{now, cell, r.ID})
					}
					var ledgers []*ledgerBooks
					if way == 1 {
						cfg.Books = func(int) Books {
							ledgers = append(ledgers, newLedgerBooks(t, hosts))
							return ledgers[len(ledgers)-1]
						}
					}
					w := NewWorld(cfg)
					for range 1800 {
						if err := w.Step(); err != nil {
							t.Fatal(err)
						}
						if used := inUse(w, ledgers); used > limit {
							t.Fatalf("%s: the ledgers have %d in use; want at most %d", w.now, used, limit)
						}
					}
					for i, b := range ledgers {
						if found := b.ledger.Audit(); len(found) > 0 {
							t.Errorf("ledger %d: %v", i, found)
						}
					}
				}
				if len(grants[0]) < 500 {
					t.Errorf("the test is wrong: only %d grants", len(grants[0]))
				}
				for i := range min(len(grants[0]), len(grants[1])) {
					if grants[0][i] != grants[1][i] {
						t.Fatalf("grant %d is %v of the numbers and %v of the ledgers", i, grants[0][i], grants[1][i])
					}
				}
				if len(grants[0]) != len(grants[1]) {
					t.Errorf("%d grants of the numbers and %d of the ledgers", len(grants[0]), len(grants[1]))
				}
			})
		}
	}
}

// inUse returns the units that the ledgers have granted and not got back. If a coordinator is down,
// its ledger does not learn of ends, so the engines that run there count instead.
func inUse(w *World, ledgers []*ledgerBooks) (used int) {
	for i, b := range ledgers {
		if w.now < w.cells[i].downUntil {
			used += w.inUse[i]
		} else {
			used += b.Used()
		}
	}
	return used
}

// A cell needs more than its share as the limit of a rule: the ledger treats this limit as the most
// that can ever be available. ADR 55 describes the necessary change.
func TestALedgerCallsARequestImpossibleThatIsLargerThanTheShare(t *testing.T) {
	b := newLedgerBooks(t, 1)
	b.SetLimit(0, 2)
	_, err := b.ledger.Allocate(began, ledger.AllocateCommand{
		Actor: identity.Local(), Labels: b.labels, Resource: resource.NewResource(memory(3)), Wait: time.Minute,
	})
	short, is := errors.AsType[*ledger.InsufficientError](err)
	if !is || !short.Never {
		t.Errorf("got %v; want a refusal for ever, which is right for a limit and wrong for a share", err)
	}
}

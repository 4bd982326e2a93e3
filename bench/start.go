package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/opener"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// startSuite measures row 6 of the budgets.
func startSuite(ctx context.Context, r *run) error {
	w, err := readWorkload("start")
	if err != nil {
		return err
	}
	usual := &startStore{dir: filepath.Join(r.dir, "start"), live: r.size(w.Live)}
	bare := &startStore{dir: filepath.Join(r.dir, "start-many"), live: r.size(w.Many)}
	day := &startStore{dir: filepath.Join(r.dir, "start-day"), live: r.size(w.Many), remembered: r.size(w.Remembered)}
	for _, s := range []*startStore{usual, bare, day} {
		if err := writeStore(ctx, w, s.live, s.remembered, filepath.Join(s.dir, "bursar.db")); err != nil {
			return err
		}
	}
	for range r.rounds(w.Rounds) {
		for _, s := range []*startStore{usual, bare, day} { // in turn: the machine's speed changes
			if err := s.start(ctx, r); err != nil {
				return err
			}
		}
	}
	r.line("start/serving", median(usual.took), "s", 0)
	r.line("start/rss", median(usual.memory), "MiB", 0)
	r.line("start/day-serving", median(day.took), "s", median(day.took)/median(bare.took))
	r.line("start/day-rss", median(day.memory), "MiB", median(day.memory)/median(bare.memory))
	return nil
}

// startStore is a store on which coordinators are started.
type startStore struct {
	dir              string
	live, remembered int

	took, memory []float64 // of each start; memory when it leads
}

// start starts a coordinator, and ends it.
func (s *startStore) start(ctx context.Context, r *run) error {
	d, err := r.startCoordinator(ctx, s.dir, 5*time.Second)
	if err != nil {
		return err
	}
	bytes, err := memoryOf(d.pid())
	if err == nil {
		err = expect(ctx, d.address, s.live)
	}
	if err := errors.Join(err, d.stop()); err != nil {
		return err
	}
	s.took, s.memory = append(s.took, d.took.Seconds()), append(s.memory, float64(bytes)/(1<<20))
	return nil
}

// expect fails if the coordinator does not have all live allocations.
func expect(ctx context.Context, address string, live int) error {
	c, err := client.New(address)
	if err != nil {
		return err
	}
	defer c.Close()
	status, err := c.Cluster().Status(ctx, &bursarv1.StatusRequest{})
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	if status.GetActive() != int64(live) {
		return fmt.Errorf("%d active allocations were loaded: want %d", status.GetActive(), live)
	}
	return nil
}

// writeStore writes the data of a coordinator into a file or a database that belongs to no cluster
// yet: hosts, rules, active allocations, and remembered ones that ended in the last day.
func writeStore(ctx context.Context, w *workload, live, remembered int, where string) (err error) {
	s, err := opener.Open(ctx, where, opener.Options{Migrate: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	meta, err := s.Lead(ctx, 0)
	if err != nil {
		return err
	}
	b, err := newFilledLedger(&workload{
		Seed: w.Seed, Host: w.Host, Labels: w.Labels, Request: w.Request, Remembered: 1, Batch: 1 << 62,
	}, 0)
	if err != nil {
		return err
	}
	b.now = ledger.At(time.Now())
	commit := func() error {
		changes := b.ledger.Changes()
		if err := s.Commit(ctx, store.Batch{Epoch: meta.Epoch, Changes: changes}); err != nil {
			return err
		}
		b.ledger.Durable(b.now, changes.Revision)
		return nil
	}
	quotas, err := w.quotas()
	if err != nil {
		return err
	}
	if err := b.ledger.SetQuotas(b.now, ledger.SourceAPI, quotas); err != nil {
		return err
	}
	capacity, err := w.Host.vector()
	if err != nil {
		return err
	}
	for i := range w.Hosts {
		if err := addHost(b.ledger, b.now, hostName(i), capacity, nil); err != nil {
			return err
		}
	}
	for i := range live {
		id, err := b.allocate(b.command())
		if err != nil {
			return err
		}
		if _, err := b.ledger.Confirm(b.now, ledger.ConfirmCommand{
			Actor: b.actor, ID: id, Process: ledger.Process{PID: int32(1000 + i), StartTime: uint64(i), BootID: "boot"},
		}); err != nil {
			return err
		}
		if i%1000 == 0 {
			if err := commit(); err != nil {
				return err
			}
		}
	}
	if err := commit(); err != nil {
		return err
	}
	return b.writeDay(ctx, s, meta.Epoch, remembered)
}

// writeDay writes n allocations that ended within the last day, the latest of them now.
func (b *filledLedger) writeDay(ctx context.Context, s store.Store, epoch uint64, n int) error {
	const batch = 5000
	c := b.command()
	last := b.ledger.Changes()
	row := ledger.Allocation{
		State: ledger.Released, Caller: b.actor.Name, Labels: c.Labels, Requested: c.Resource, Entitled: c.Resource, HostID: hostName(0),
		ReservationTTL: 2 * time.Minute, Process: ledger.Process{PID: 7, StartTime: 7, BootID: "boot"}, Reason: "its process ended",
	}
	for from := 0; from < n; from += batch {
		changes := ledger.Changes{Time: last.Time}
		for i := from; i < min(n, from+batch); i++ {
			at := b.now.Add(-time.Duration(n-1-i) * (20 * time.Hour / time.Duration(n)))
			last.LastID, last.Revision = last.LastID+1, last.Revision+1
			row.ID, row.RequestID, row.RequestHash, row.Revision = last.LastID, fmt.Sprintf("launcher-of-the-last-day-%08d", i), uint64(i), last.Revision
			row.Created, row.Reserved, row.Confirmed, row.Ended = at, at, at, at
			changes.Transitions = append(changes.Transitions, row)
		}
		changes.Revision, changes.LastID = last.Revision, last.LastID
		if err := s.Commit(ctx, store.Batch{Epoch: epoch, Changes: changes}); err != nil {
			return fmt.Errorf("write what has ended: %w", err)
		}
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/bursar/bursar/bench/performance"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
)

// bursts runs workloads/burst.yaml.
func bursts(ctx context.Context, r *run) error {
	w, err := readWorkload("burst")
	if err != nil {
		return err
	}
	rates := make([][]float64, len(w.Bursts))
	for range r.rounds(w.Rounds) {
		for i, shape := range w.Bursts {
			turn, err := oneBurst(w, shape, r.size(shape.Requests))
			if err != nil {
				return err
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			rates[i] = append(rates[i], turn.Rate)
		}
	}
	for i, shape := range w.Bursts {
		name := fmt.Sprintf("burst/%dx%d", shape.Groups, shape.Requests)
		r.line(name, median(rates[i]), "grants/s", median(ratios(rates[i], rates[0])))
	}
	return nil
}

// oneBurst returns the grants per second, and the CPU time of a grant.
func oneBurst(w *workload, shape burst, requests int) (turn performance.Turn, err error) {
	b, err := newFilledLedger(w, shape.Hosts)
	if err != nil {
		return turn, err
	}
	b.sets = make([]label.Set, shape.Groups)
	for i := range b.sets {
		b.sets[i] = label.Of("queue", fmt.Sprint("queue-", i), "user", fmt.Sprint("user-", i))
	}
	runtime.GC()
	before, err := cpuTime()
	if err != nil {
		return turn, err
	}
	start := time.Now()
	for range shape.Groups * requests {
		if _, err := b.allocate(b.command()); err != nil {
			return turn, err
		}
	}
	took := time.Since(start)
	after, err := cpuTime()
	if err != nil {
		return turn, err
	}
	n := shape.Groups * requests
	return performance.Turn{Rate: float64(n) / took.Seconds(), CPU: each(after-before, n)}, b.audit()
}

// deepLedger is a ledger with waiting groups.
type deepLedger struct {
	*filledLedger

	depth int
	held  [][]ledger.ID // by group
}

// deepPending runs workloads/deep-pending.yaml.
func deepPending(ctx context.Context, r *run) error {
	w, err := readWorkload("deep-pending")
	if err != nil {
		return err
	}
	all := make([]*deepLedger, len(w.Depths))
	for i, depth := range w.Depths {
		if all[i], err = newDeepLedger(w, r.size(depth)); err != nil {
			return err
		}
	}
	beside, grants := make([][]float64, len(all)), make([][]float64, len(all))
	for round := range r.rounds(w.Rounds) {
		for i, b := range all {
			pairs, err := b.timed(func() error { return b.pairs(r.size(w.Window)) })
			if err != nil {
				return err
			}
			drained := min(r.size(w.Drain), 2*b.depth/len(all)/r.rounds(w.Rounds))
			granted, err := b.timed(func() error { return b.letIn(drained) })
			if err != nil {
				return errors.Join(err, ctx.Err())
			}
			if round > 0 {
				beside[i] = append(beside[i], float64(r.size(w.Window))/pairs.Seconds())
				grants[i] = append(grants[i], float64(drained)/granted.Seconds())
			}
		}
	}
	for i, depth := range w.Depths {
		r.line(fmt.Sprintf("deep/beside-%d", depth), median(beside[i]), "pairs/s", median(ratios(beside[i], beside[0])))
	}
	for i, depth := range w.Depths[1:] {
		r.line(fmt.Sprintf("deep/grants-%d", depth), median(grants[i+1]), "grants/s", median(ratios(grants[i+1], grants[1])))
	}
	for _, b := range all {
		if err := b.audit(); err != nil {
			return err
		}
	}
	return nil
}

func newDeepLedger(w *workload, depth int) (*deepLedger, error) {
	b, err := newFilledLedger(w, w.Hosts)
	if err != nil {
		return nil, err
	}
	d := &deepLedger{filledLedger: b, depth: depth, held: make([][]ledger.ID, w.Groups)}
	if err := b.fill(1000); err != nil {
		return nil, err
	}
	for g := range w.Groups {
		labels := label.Of("queue", fmt.Sprint("full-", g), "user", fmt.Sprint("full-", g))
		if err := b.wait(depth, w.Sizes, labels); err != nil {
			return nil, err
		}
		b.ledger.Allocations(0, func(a *ledger.Allocation) bool {
			if a.State == ledger.Reserved && a.Labels.Equal(labels) {
				d.held[g] = append(d.held[g], a.ID)
			}
			return true
		})
	}
	b.drain()
	return d, nil
}

// timed returns the CPU time that this process uses for f.
func (d *deepLedger) timed(f func() error) (time.Duration, error) {
	runtime.GC()
	before, err := cpuTime()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := cpuTime()
	return after - before, err
}

// letIn ends allocations of the groups, one after the other, until n waiting requests were granted.
func (d *deepLedger) letIn(n int) error {
	d.drain()
	for granted := 0; granted < n; {
		for g, held := range d.held {
			if len(held) == 0 {
				return fmt.Errorf("group %d has nothing left, %d of %d were let in", g, granted, n)
			}
			if _, err := d.ledger.Release(d.now, ledger.ReleaseCommand{Actor: d.actor, ID: held[0]}); err != nil {
				return err
			}
			held = held[1:]
			changes := d.ledger.Changes()
			d.ledger.Durable(d.now, changes.Revision)
			for i := range changes.Transitions {
				if t := &changes.Transitions[i]; t.State == ledger.Reserved {
					held = append(held, t.ID)
					granted++
				}
			}
			d.held[g] = held
		}
	}
	return nil
}

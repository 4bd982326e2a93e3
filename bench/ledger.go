package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/bursar/bursar/label"
)

// ledgerChild is a process with one ledger.
type ledgerChild struct {
	filled *filledLedger
}

func (c *ledgerChild) do(_ context.Context, o order) (answer, error) {
	if c.filled == nil {
		return answer{}, c.open(o)
	}
	if o.Pairs == 0 {
		return answer{}, c.filled.audit()
	}
	before, err := cpuTime()
	if err != nil {
		return answer{}, err
	}
	if err := c.filled.pairs(o.Pairs); err != nil {
		return answer{}, err
	}
	after, err := cpuTime()
	return answer{CPU: after - before}, err
}

// open brings the ledger to the state after a day: it has its live allocations, and remembers as
// many request ids as it can.
func (c *ledgerChild) open(o order) error {
	w, err := readWorkload(o.Workload)
	if err != nil {
		return err
	}
	if o.Short {
		w.Remembered /= 20
	}
	if c.filled, err = newFilledLedger(w, o.Hosts); err != nil {
		return err
	}
	if o.Waiting > 0 {
		if err := c.filled.wait(o.Waiting, w.Sizes, label.Of("user", "waiting")); err != nil {
			return err
		}
	}
	if err := c.filled.fill(o.Live); err != nil {
		return err
	}
	if err := c.filled.pairs(w.Remembered); err != nil {
		return err
	}
	runtime.GC()
	return nil
}

// ledgerSuite measures rows 1 to 3 of the budgets.
func ledgerSuite(ctx context.Context, r *run) (err error) {
	w, err := readWorkload("ledger")
	if err != nil {
		return err
	}
	// One process for each fleet, and one more for the middle fleet with waiting requests.
	orders := make([]order, 0, len(w.Fleets)+1)
	for _, hosts := range w.Fleets {
		orders = append(orders, order{Workload: "ledger", Hosts: r.size(hosts), Live: r.size(w.Live), Short: r.short})
	}
	waiting := orders[1]
	waiting.Waiting = r.size(w.Waiting)
	orders = append(orders, waiting)
	var children []*child
	defer func() {
		for _, c := range children {
			err = errors.Join(err, c.stop())
		}
	}()
	for _, o := range orders {
		c, err := r.startChild(ctx, "ledger", o, "GOMAXPROCS=1")
		if err != nil {
			return err
		}
		children = append(children, c)
	}
	if r.before != "" {
		c, err := r.startChildOf(ctx, r.before, "ledger", orders[1], "GOMAXPROCS=1")
		if err != nil {
			return fmt.Errorf("-before %s: %w", r.before, err)
		}
		children = append(children, c)
	}
	rates, err := takeTurns(children, order{Pairs: r.size(w.Window)}, r.rounds(w.Rounds))
	if err != nil {
		return err
	}
	for _, c := range children {
		if _, err := c.do(order{}); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
	}
	small, middle, large, behind := rates[0], rates[1], rates[2], rates[3]
	r.line("ledger/pairs", median(middle), "pairs/s", 0)
	for i, hosts := range w.Fleets {
		r.line(fmt.Sprintf("ledger/hosts-%d", hosts), median(rates[i]), "pairs/s", median(ratios(rates[i], middle)))
	}
	r.line(fmt.Sprintf("ledger/hosts-%d-to-%d", w.Fleets[0], w.Fleets[2]), median(large), "pairs/s", median(ratios(small, large)))
	r.line(fmt.Sprintf("ledger/beside-%d-waiting", w.Waiting), median(behind), "pairs/s", median(ratios(behind, middle)))
	if r.before != "" {
		r.line("ledger/pairs-before", median(rates[4]), "pairs/s", median(ratios(middle, rates[4])))
	}
	return nil
}

// takeTurns gives every child the same order in turn and returns their rates, without the first
// round.
func takeTurns(children []*child, o order, rounds int) ([][]float64, error) {
	rates := make([][]float64, len(children))
	for round := range rounds {
		for i, c := range children {
			a, err := c.do(o)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				rates[i] = append(rates[i], float64(o.Pairs)/a.CPU.Seconds())
			}
		}
	}
	return rates, nil
}

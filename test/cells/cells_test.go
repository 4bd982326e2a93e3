package cells

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"pgregory.net/rapid"
)

func patterns() []Pattern { return []Pattern{Uniform, Skewed, Moving, Bursts} }

// usual is a world without faults: leases of a minute, and clocks whose speeds differ by 1 in
// 1,000, which is more than for a clock that NTP corrects.
func usual(cfg Config) Config {
	cfg.Lease, cfg.Drift, cfg.Margin = time.Minute, 0.001, 0.001
	return cfg
}

// faulty is a world in which each cell crashes, and is partitioned from the owner, once an hour.
func faulty(cfg Config) Config {
	cfg = usual(cfg)
	cfg.Faults = 1
	return cfg
}

// With any faults, the units that cells use or may use are within the limit. After the end of all
// faults, demand and engines, one cell can have nearly all of the limit.
func TestNoFaultOvercommitsTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cells := rapid.IntRange(1, 6).Draw(t, "cells")
		cfg := Config{
			Cells: cells, Limit: cells * rapid.IntRange(10, 60).Draw(t, "limit of a cell"),
			Demand:  rapid.Float64Range(0.2, 3).Draw(t, "demand"),
			Pattern: rapid.SampledFrom(patterns()).Draw(t, "pattern"),
			Seed:    rapid.Uint64().Draw(t, "seed"),
			Lease:   time.Duration(rapid.IntRange(10, 120).Draw(t, "lease")) * time.Second,
			Stops:   rapid.Bool().Draw(t, "engines are stopped"),
			Drift:   rapid.Float64Range(0, 0.2).Draw(t, "drift"),
			Faults:  rapid.Float64Range(0, 60).Draw(t, "faults an hour"),
		}
		cfg.Margin = cfg.Drift
		w := NewWorld(cfg)
		run(t, w, 1000)
		w.cfg.Faults, w.demand.rate = 0, 0
		run(t, w, 2*longest+300)
		last := w.cells[cells-1]
		want := cfg.Limit - cells*largest
		for range want / largest {
			last.waiting = append(last.waiting, Request{ID: -len(last.waiting) - 1, Units: largest, Life: time.Hour, GivesUp: w.now + time.Hour})
		}
		run(t, w, 60)
		if cfg.Lease > 2*patience && len(last.waiting) > 0 {
			t.Errorf("%d of %d requests wait in the only cell that needs anything; %d is free", len(last.waiting), want/largest, w.owner.free())
		}
	})
}

func run(t interface{ Fatal(args ...any) }, w *World, seconds int) {
	for range seconds {
		if err := w.Step(); err != nil {
			t.Fatal(err)
		}
	}
}

// The test above detects an owner that gives a share again as soon as its own clock says so.
func TestAnOwnerThatTrustsItsClockOvercommitsTheLimit(t *testing.T) {
	for seed := range uint64(100) {
		w := NewWorld(Config{
			Cells: 6, Limit: 200, Demand: 2, Pattern: Moving, Seed: seed, Lease: 2 * time.Minute, Stops: true, Drift: 0.2, Margin: 0, Faults: 30,
		})
		for range 1000 {
			if w.Step() != nil {
				return
			}
		}
	}
	t.Error("want one of 100 worlds in which the limit is overcommitted")
}

// A cell that is gone for good keeps its share until an operator gives it up, which works only
// after the end of its lease.
func TestTheShareOfACellThatIsGoneIsGivenUp(t *testing.T) {
	w := NewWorld(usual(Config{Cells: 2, Limit: 100, Demand: 3, Seed: 1}))
	run(t, w, 600)
	gone := w.cells[0]
	gone.Crash(1000 * time.Hour)
	gone.running = nil // its machines are gone, too
	if w.owner.GiveUp(0) {
		t.Error("a cell was given up that may have a lease")
	}
	run(t, w, 600)
	if counted := w.owner.cells[0].counted; counted == 0 {
		t.Errorf("nothing is counted for a cell that is silent, although nobody said that it is gone")
	}
	if !w.owner.GiveUp(0) {
		t.Error("a cell was not given up that has no lease")
	}
	run(t, w, 60)
	if used := w.cells[1].inUse(w.now); used < 90 {
		t.Errorf("the other cell uses %d; want nearly all of 100", used)
	}
}

// One row for each pattern and size of demand, for a hundred cells. Each row compares ways to
// divide the limit for the same demand. The first way is one ledger for all cells.
func TestHundredCellsStrandLittle(t *testing.T) {
	const cells, limit = 100, 10_000
	type way struct {
		name string
		cfg  func(Config) Config
	}
	ways := []way{
		{"one ledger", func(c Config) Config { c.Sources, c.Cells, c.Split = c.Cells, 1, true; return c }},
		{"split", func(c Config) Config { c.Split = true; return c }},
		{"leases", usual},
		{"leases, faults", faulty},
		{"leases of 15 min, faults", func(c Config) Config { c = faulty(c); c.Lease = 15 * time.Minute; return c }},
		{"leases, faults, engines stopped", func(c Config) Config { c = faulty(c); c.Stops = true; return c }},
	}
	table := &strings.Builder{}
	out := tabwriter.NewWriter(table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "demand\tpattern\tlimit\tused\tstranded\tat most\twaited\tmessages/s")
	for _, load := range []float64{0.8, 1.2} {
		for _, pattern := range patterns() {
			for _, how := range ways {
				w := NewWorld(how.cfg(Config{Cells: cells, Limit: limit, Demand: load, Pattern: pattern, Seed: 1}))
				run(t, w, 1200)
				w.Reset()
				run(t, w, 1800)
				f := w.Figures()
				fmt.Fprintf(out, "%.0f %%\t%s\t%s\t%.1f %%\t%.2f %%\t%.2f %%\t%.1f s\t%.0f\n", 100*load, pattern, how.name,
					100*f.Used(), 100*f.Stranded(), 100*f.WorstStranded(), f.Waited().Seconds(), f.MessagesPerSecond())
				if how.name == "leases" && f.Stranded() > 0.05 {
					t.Errorf("%s, %.0f %%: %.1f %% is stranded; want at most 5 %%", pattern, 100*load, 100*f.Stranded())
				}
			}
		}
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
}

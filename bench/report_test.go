package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestLinesAreHeldAgainstTheirBudgets(t *testing.T) {
	var out bytes.Buffer
	r, err := newReport(&out)
	if err != nil {
		t.Fatal(err)
	}
	r.line("closed/durable-1000x1", 2872, "pairs/s", 0)
	r.line("wire/calls", 10_000, "calls/s", 0.6)
	r.line("hop/p50", 210, "µs", 3)
	r.line("allocs/label", 1, "allocations", 0)
	r.line("hop/echo-p50", 70, "µs", 0)
	r.note("agent/cgroups-cpu", "no cgroups")
	r.close(func(suite string) bool { return suite == "hop" || suite == "wire" })
	want := `closed/durable-1000x1 2872 pairs/s (ratio 2, budget value >= 1436, ok)
wire/calls 10000 calls/s (ratio 0.6, budget ratio >= 0.7, MISSED)
hop/p50 210 µs (ratio 3, budget ratio <= 5, ok)
allocs/label 1 allocations (ratio 0, budget value <= 0, MISSED)
hop/echo-p50 70 µs (no budget)
agent/cgroups-cpu not measured: no cgroups

2 budgets met, 2 missed
  wire/calls 10000 calls/s (ratio 0.6, budget ratio >= 0.7, MISSED)
  allocs/label 1 allocations (ratio 0, budget value <= 0, MISSED)
  not measured: wire/coordinator-cpu
  not measured: wire/p99
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestARatioToWhatWasCutOffIsABound(t *testing.T) {
	var out bytes.Buffer
	r, err := newReport(&out)
	if err != nil {
		t.Fatal(err)
	}
	r.more("peers-burst/1000x2x25000-ledger-to-yunikorn", 300_000, "grants/s", 270)
	r.more("peers-closed/1000x64-ledger-to-yunikorn", 300_000, "pairs/s", 41)
	r.more("peers-burst/1000x2x25000-ledger-to-nomad", 300_000, "grants/s", 270)
	r.close(func(suite string) bool { return suite == "peers-burst" || suite == "peers-closed" })
	want := `peers-burst/1000x2x25000-ledger-to-yunikorn 300000 grants/s (ratio more than 270, budget ratio >= 400, not known)
peers-closed/1000x64-ledger-to-yunikorn 300000 pairs/s (ratio more than 41, budget ratio >= 40, ok)
peers-burst/1000x2x25000-ledger-to-nomad 300000 grants/s (ratio more than 270, no budget)

1 budgets met, 0 missed
  not measured: peers-burst/1000x2x25000-ledger-to-yunikorn
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestEveryBudgetBelongsToASuite(t *testing.T) {
	r, err := newReport(&bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Split(names(), ", ")
	for name := range r.budgets {
		suite, _, _ := strings.Cut(name, "/")
		found := false
		for _, k := range known {
			found = found || k == suite
		}
		if !found {
			t.Errorf("budgets.yaml: %s: no suite prints it; there are %s", name, names())
		}
	}
}

// The suites that need only this process run here, at their smallest size.
func TestSuitesInProcessRun(t *testing.T) {
	var out bytes.Buffer
	r, err := newReport(&out)
	if err != nil {
		t.Fatal(err)
	}
	short := &run{report: r, short: true, dir: t.TempDir(), log: &out}
	for _, s := range []func(context.Context, *run) error{allocs, closedLoop, bursts, deepPending} {
		if err := s(t.Context(), short); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(out.String(), "closed/durable-1000x64 ") || !strings.Contains(out.String(), "deep/grants-25000 ") {
		t.Errorf("lines are missing:\n%s", out.String())
	}
}

func TestWorkloadsAreRead(t *testing.T) {
	files, err := workloads.ReadDir("workloads")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		w, err := readWorkload(strings.TrimSuffix(file.Name(), ".yaml"))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := w.quotas(); err != nil {
			t.Errorf("%s: %v", file.Name(), err)
		}
		if _, err := w.request(); err != nil {
			t.Errorf("%s: %v", file.Name(), err)
		}
		if _, err := w.Host.vector(); err != nil {
			t.Errorf("%s: %v", file.Name(), err)
		}
	}
}

package placement_test

import (
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/label"
)

func TestLargestGoesBySizeAlone(t *testing.T) {
	gpu := func(v ledger.HostView, n int64) ledger.HostView {
		v.Limit = v.Limit.With("gpu", n)
		return v
	}
	x := place(placement.Spread,
		host(64*gib, 8000),
		with(booked(host(128*gib, 4000), 128*gib, 4000), func(v *ledger.HostView) { v.Health, v.Measured, v.Held = false, false, true }),
		gpu(host(32*gib, 16_000), 2),
		gpu(labeled(host(16*gib, 2000), "zone", "b"), 4),
	)
	for _, test := range []struct {
		name string
		q    ledger.Query
		want ledger.Slot
	}{
		{"memory, of one that is closed and full", ask(256*gib, 1000), 1},
		{"cpu", ask(gib, 32_000), 2},
		{"the scarcer of memory and cpu", ask(128*gib, 16_000), 0},
		{"gpus", asking(ask(gib, 1000), "gpu", 8), 3},
		{"gpus and memory", asking(ask(64*gib, 1000), "gpu", 4), 2},
		{"with the label", wishing(ask(256*gib, 1000), ledger.Wishes{Required: label.Of("zone", "b")}), 3},
		{"that is not to be avoided", wishing(ask(256*gib, 1000), ledger.Wishes{Avoid: []string{id(1)}}), 0},
		{"no host has the label", wishing(ask(256*gib, 1000), ledger.Wishes{Required: label.Of("zone", "c")}), ledger.NoSlot},
	} {
		if got := x.Largest(test.q); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func asking(q ledger.Query, dimension string, n int64) ledger.Query {
	q.Request = q.Request.With(dimension, n)
	return q
}

// In a fleet in which every host has the memory and none the gpu, each would have to be looked at.
func TestLargestDoesNotLookAtEveryHost(t *testing.T) {
	x := placement.New(placement.Spread)
	for i := range 32_000 {
		v := host(int64(64+i%7)*gib, 8000)
		v.ID = id(ledger.Slot(i))
		x.Put(ledger.Slot(i), v)
	}
	for name, q := range map[string]ledger.Query{
		"gpu":    asking(ask(gib, 1000), "gpu", 1),
		"memory": ask(1000*gib, 1000),
	} {
		if slot := x.Largest(q); slot == ledger.NoSlot || x.Steps() > 1000 {
			t.Errorf("%s: host %d after %d steps", name, slot, x.Steps())
		}
	}
	if slot := x.Largest(ask(1000*gib, 1000)); slot%7 != 6 {
		t.Errorf("the largest is host %d", slot)
	}
}

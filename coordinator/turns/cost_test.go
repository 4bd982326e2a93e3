package turns

import (
	"testing"
	"time"
)

func TestWhatACommandCosts(t *testing.T) {
	for cost, want := range map[Cost]time.Duration{
		{}:                                   time.Microsecond,
		{Time: 300}:                          time.Microsecond, // below the clock's resolution
		{Time: 20 * time.Microsecond}:        20 * time.Microsecond,
		{Bytes: 1000}:                        5 * time.Microsecond,
		{Time: time.Millisecond, Bytes: 250}: 1001 * time.Microsecond,
		{Time: time.Millisecond, Bytes: -9}:  time.Millisecond,
	} {
		if got := cost.total(); got != want {
			t.Errorf("%+v costs %s; want %s", cost, got, want)
		}
	}
}

func TestABatchIsFullByParts(t *testing.T) {
	limits := Limits{Commands: 10, Bytes: 1000, Time: time.Millisecond}
	for of, want := range map[tally]struct{ half, all bool }{
		{}: {}, {commands: 4, bytes: 499, time: 499 * time.Microsecond}: {},
		{commands: 5}: {half: true}, {bytes: 500}: {half: true}, {time: 500 * time.Microsecond}: {half: true},
		{commands: 9, bytes: 999, time: 999 * time.Microsecond}: {half: true},
		{commands: 10}: {true, true}, {bytes: 1000}: {true, true}, {time: time.Millisecond}: {true, true},
	} {
		if half, all := of.has(2, limits), of.has(1, limits); half != want.half || all != want.all {
			t.Errorf("%+v has half: %t, all: %t; want %+v", of, half, all, want)
		}
	}
	sum := tally{}
	sum.add(Cost{})
	sum.add(Cost{Time: time.Millisecond, Bytes: -1})
	sum.add(Cost{Bytes: 7})
	if want := (tally{3, 7, time.Millisecond + 2*time.Microsecond}); sum != want {
		t.Errorf("the sum is %+v; want %+v", sum, want)
	}
}

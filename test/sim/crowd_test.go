package sim

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

var (
	kinds  = flag.Int("sim.kinds", 1000, "how many kinds of requests wait in a world with a crowd")
	crowds = flag.Int("sim.crowds", 1, "how many worlds with a crowd to play")
)

// TestSimulationOfACrowd plays worlds in which thousands of kinds of requests wait, from the seed
// -sim.from.
func TestSimulationOfACrowd(t *testing.T) {
	if *first != 0 {
		return // the world of one seed is played alone
	}
	for i := range *crowds {
		t.Run(fmt.Sprint(*from+uint64(i)), func(t *testing.T) { playCrowd(t, *from+uint64(i)) })
	}
}

func playCrowd(t *testing.T, seed uint64) {
	began := time.Now()
	w := NewWorld(Config{Seed: seed, Hosts: 6, Coordinators: 3, Busy: 4 * time.Minute, Quiet: time.Minute, Kinds: *kinds})
	if err := w.Run(); err != nil {
		t.Errorf("seed %d: %v\nthe last of its story:\n%s\nplay it again with -sim.from=%d -sim.kinds=%d",
			seed, err, strings.Join(w.Story(), "\n"), seed, *kinds)
	}
	c := w.crowd
	t.Logf("%d requests waited at a time; %d engines, %d holds; at most %d steps without a pause; of %d heartbeats each asked for %.1f hosts, at most %d; "+
		"a large request waited for %s of %s; %d steps of the world in %s; %s",
		c.waited, c.started, c.holds, c.mostSteps, c.heartbeats, float64(c.looks)/float64(c.heartbeats), c.mostLooks,
		c.slowest.Round(time.Second), c.bound(), w.tally.Steps, time.Since(began).Round(time.Millisecond), w.Transcript())
}

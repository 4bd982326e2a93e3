package sim

import (
	"flag"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seeds = flag.Int("sim.seeds", 50, "how many worlds to play")
	first = flag.Uint64("sim.seed", 0, "play only the world of this seed, and print its story")
)

func config(seed uint64) Config {
	return Config{Seed: seed, Hosts: 1 + int(seed%4), Busy: 90 * time.Second, Quiet: 120 * time.Second}
}

// TestSimulation plays many worlds. A seed that fails prints its story; -sim.seed=N plays it again.
func TestSimulation(t *testing.T) {
	if *first != 0 {
		c := config(*first)
		c.Story = true
		w := NewWorld(c)
		err := w.Run()
		t.Log("\n" + strings.Join(w.Story(), "\n"))
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	var next, steps, granted atomic.Int64
	var failed atomic.Bool
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed := next.Add(1); int(seed) <= *seeds && !failed.Load(); seed = next.Add(1) {
				w := NewWorld(config(uint64(seed)))
				if err := w.Run(); err != nil {
					failed.Store(true)
					t.Errorf("seed %d: %v\nthe last of its story:\n%s\nplay it again with -sim.seed=%d", seed, err, strings.Join(w.Story(), "\n"), seed)
				}
				steps.Add(int64(w.Steps()))
				granted.Add(int64(w.Granted()))
			}
		})
	}
	workers.Wait()
	t.Logf("%d worlds, %d steps, %d grants", min(int(next.Load())-1, *seeds), steps.Load(), granted.Load())
	if granted.Load() < int64(*seeds) {
		t.Errorf("only %d grants: the worlds do not do what they are for", granted.Load())
	}
}

// TestSameSeedSameStory holds that a failure can be played again.
func TestSameSeedSameStory(t *testing.T) {
	play := func() string {
		c := config(7)
		c.Story = true
		w := NewWorld(c)
		if err := w.Run(); err != nil {
			t.Fatal(err)
		}
		return strings.Join(w.Story(), "\n")
	}
	if a, b := play(), play(); a != b {
		t.Error("two plays of one seed differ")
	}
}

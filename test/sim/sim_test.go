package sim

import (
	"flag"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seeds = flag.Int("sim.seeds", 50, "how many worlds to play")
	from  = flag.Uint64("sim.from", 1, "the seed of the first of them; the others follow")
	first = flag.Uint64("sim.seed", 0, "play only the world of this seed, and print its story")
)

func config(seed uint64) Config {
	coordinators := 3
	if seed%5 == 0 {
		coordinators = 1
	}
	return Config{Seed: seed, Hosts: 1 + int(seed%4), Coordinators: coordinators, Busy: 90 * time.Second, Quiet: 120 * time.Second}
}

// TestSimulation plays many worlds. A seed that fails prints its story; -sim.seed=N plays it
// again.
func TestSimulation(t *testing.T) {
	if *first != 0 {
		tell(t, config(*first))
		return
	}
	all, played := playWorlds(t, *seeds, config)
	checkTranscripts(t, played)
	if all.Grants < *seeds || all.Leaderships < *seeds {
		t.Error("the worlds do not do what they are for")
	}
	often := min(all.Deposed, all.Forwarded, all.Late, all.Restored, all.Filed, all.Copied, all.QueueGrants, all.Reports, all.Silences, all.Failovers, all.OwnLives, all.Followed, all.OverUses, all.Killed,
		all.OutOfMemory, all.Drained, all.Hidden, all.LookedUp, all.Recalled)
	seldom := min(all.Outdated, all.Superseded, all.Untimely)
	if *seeds >= 50 && often == 0 || *seeds >= 2000 && seldom == 0 {
		t.Error("something that the worlds are for never happened")
	}
}

// TestSimulationOfLimits plays worlds whose rules limit and guarantee external parts. They are
// apart, so that the other worlds, and their transcripts, are as they were.
func TestSimulationOfLimits(t *testing.T) {
	limited := func(seed uint64) Config {
		c := config(seed)
		c.Limits = true
		return c
	}
	if *first != 0 {
		tell(t, limited(*first))
		return
	}
	n := max(1, *seeds/2)
	all, _ := playWorlds(t, n, limited)
	if n >= 25 && (all.LimitedGrants == 0 || all.PromisedGrants == 0) {
		t.Errorf("%d grants count in limits of external parts, %d in guarantees", all.LimitedGrants, all.PromisedGrants)
	}
	if n >= 100 && (all.GrowingRefusals == 0 || all.HeldBackRefusals == 0) {
		t.Errorf("%d refusals for queues that may grow, %d for those that hold applications back", all.GrowingRefusals, all.HeldBackRefusals)
	}
}

// TestSimulationOfStarts plays worlds with callers that start engines from elsewhere. They are
// apart, as those of limits are.
func TestSimulationOfStarts(t *testing.T) {
	starting := func(seed uint64) Config {
		c := config(seed)
		c.Starts = true
		return c
	}
	if *first != 0 {
		tell(t, starting(*first))
		return
	}
	n := max(1, *seeds/2)
	if all, _ := playWorlds(t, n, starting); all.Executed < 6*n || all.Retried < n/2 || all.Usable < 3*n {
		t.Errorf("%d engines have begun in %d worlds, %d of them as retries, and %d could be used", all.Executed, n, all.Retried, all.Usable)
	}
}

// tell plays one world and prints its story.
func tell(t *testing.T, c Config) {
	t.Helper()
	c.Story = true
	w := NewWorld(c)
	err := w.Run()
	t.Log("\n" + strings.Join(w.Story(), "\n"))
	if err != nil {
		t.Fatal(err)
	}
}

// playWorlds plays n worlds, the first of the seed *from, and returns their tally and their
// transcripts by seed.
func playWorlds(t *testing.T, n int, config func(seed uint64) Config) (all Tally, played map[uint64]string) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // worlds are small, and live briefly
	began := time.Now()
	var next atomic.Int64
	var failed atomic.Bool
	var mu sync.Mutex // guards all and played
	played = make(map[uint64]string)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1); int(i) <= n && !failed.Load(); i = next.Add(1) {
				seed := *from + uint64(i) - 1
				w := NewWorld(config(seed))
				if err := w.Run(); err != nil {
					failed.Store(true)
					t.Errorf("seed %d: %v\nthe last of its story:\n%s\nplay it again with -run '^%s$' -sim.seed=%d", seed, err, strings.Join(w.Story(), "\n"), t.Name(), seed)
				}
				mu.Lock()
				all.add(w.Tally())
				played[seed] = w.Transcript()
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("%d worlds from seed %d in %s, %.0f/s: %+v", len(played), *from, time.Since(began).Round(time.Second),
		float64(len(played))/time.Since(began).Seconds(), all)
	return all, played
}

func (t *Tally) add(other Tally) {
	t.Steps += other.Steps
	t.Grants += other.Grants
	t.Leaderships += other.Leaderships
	t.Deposed += other.Deposed
	t.Forwarded += other.Forwarded
	t.Late += other.Late
	t.Restored += other.Restored
	t.Filed += other.Filed
	t.Copied += other.Copied
	t.QueueGrants += other.QueueGrants
	t.LimitedGrants += other.LimitedGrants
	t.PromisedGrants += other.PromisedGrants
	t.GrowingRefusals += other.GrowingRefusals
	t.HeldBackRefusals += other.HeldBackRefusals
	t.Reports += other.Reports
	t.Outdated += other.Outdated
	t.Superseded += other.Superseded
	t.LookedUp += other.LookedUp
	t.Recalled += other.Recalled
	t.Untimely += other.Untimely
	t.Silences += other.Silences
	t.Failovers += other.Failovers
	t.OwnLives += other.OwnLives
	t.Followed += other.Followed
	t.OverUses += other.OverUses
	t.Killed += other.Killed
	t.OutOfMemory += other.OutOfMemory
	t.Drained += other.Drained
	t.Hidden += other.Hidden
	t.Executed += other.Executed
	t.Retried += other.Retried
	t.Usable += other.Usable
}

// TestSameSeedSameStory holds that a failure can be played again.
func TestSameSeedSameStory(t *testing.T) {
	play := func(seed uint64) string {
		c := config(seed)
		c.Story = true
		w := NewWorld(c)
		if err := w.Run(); err != nil {
			t.Fatal(err)
		}
		return strings.Join(w.Story(), "\n") + "\n" + w.Transcript()
	}
	for seed := range uint64(5) {
		if a, b := play(7+seed), play(7+seed); a != b {
			t.Errorf("two plays of seed %d differ", 7+seed)
		}
	}
}

package machine

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/command"
)

var errNoDriver = errors.New("no driver")

// counting is a loop that counts one thing every minute, by a function.
func counting(t *testing.T, count func(ctx context.Context) (int64, error)) *Countables {
	t.Helper()
	c := NewCountables(time.Now(), slog.New(slog.DiscardHandler))
	c.count = func(ctx context.Context, _ CountableSettings) (int64, error) { return count(ctx) }
	c.Use(time.Now(), map[string]CountableSettings{"gpu": {interval: time.Minute, timeout: time.Second}})
	return c
}

// start runs the loop until the test ends.
func (c *Countables) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Loop(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// wants compares with what is counted of gpu; problem is how the text begins.
func (c *Countables) wants(t *testing.T, when string, amount int64, problem string) {
	t.Helper()
	amounts, problems := c.Counts(time.Now())
	if amounts["gpu"] != amount || !strings.HasPrefix(problems["gpu"], problem) || (problem == "") != (len(problems) == 0) {
		t.Errorf("%s: %v, %q, want %d, %q", when, amounts, problems, amount, problem)
	}
}

// after lets time pass, as far as the loop sees it.
func after(t *testing.T, d time.Duration) {
	t.Helper()
	<-time.After(d)
	synctest.Wait()
}

func TestCountThatCannotBeMadeAgainStaysForThreeIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		c := counting(t, func(context.Context) (int64, error) {
			if fails.Load() {
				return 0, errNoDriver
			}
			return 4, nil
		})
		c.wants(t, "at first", 0, "not counted yet, so that there are none: the command has not ended")
		c.start(t)
		synctest.Wait()
		c.wants(t, "counted", 4, "")
		fails.Store(true)
		after(t, 90*time.Second)
		c.wants(t, "after a failure", 4, "4 as counted 1m30s ago: no driver")
		after(t, 90*time.Second)
		c.wants(t, "three intervals later", 4, "4 as counted 3m0s ago: no driver")
		after(t, time.Second)
		c.wants(t, "a second later", 0, "not counted for 3m1s, so that there are none: no driver")
		fails.Store(false)
		after(t, time.Minute)
		c.wants(t, "it works again", 4, "")
	})
}

func TestFirstCountsAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := counting(t, func(ctx context.Context) (int64, error) {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		})
		began := time.Now()
		c.First(t.Context())
		if took := time.Since(began); took != firstCounts {
			t.Errorf("took %s", took)
		}
		c.wants(t, "at first", 0, "not counted yet, so that there are none: killed after 10s, as the agent starts")
	})
}

func TestCommandThatLingersIsNotRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		gone := make(chan struct{})
		c := counting(t, func(context.Context) (int64, error) {
			if runs.Add(1) == 1 {
				return 0, &command.UndeadError{Cause: errNoDriver, Gone: gone}
			}
			return 2, nil
		})
		c.start(t)
		after(t, time.Hour)
		c.wants(t, "while it lingers", 0, "not counted yet, so that there are none: no driver; it hangs in the kernel and cannot be killed")
		if runs.Load() != 1 {
			t.Errorf("%d runs during one that lingers", runs.Load())
		}
		close(gone)
		after(t, time.Minute)
		c.wants(t, "it is gone", 2, "")
	})
}

func TestCommandThatTakesItsTimeHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		c := counting(t, func(context.Context) (int64, error) {
			runs.Add(1)
			<-time.After(10 * time.Minute) // longer than any timeout
			return 1, nil
		})
		c.start(t)
		synctest.Wait()
		c.wants(t, "while it runs", 0, "not counted yet") // and does not wait
		after(t, 9*time.Minute)
		if runs.Load() != 1 {
			t.Errorf("%d runs at a time", runs.Load())
		}
		after(t, time.Minute)
		c.wants(t, "it has ended", 1, "")
	})
}

func TestCountablesThatAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		c := counting(t, func(context.Context) (int64, error) { return runs.Add(1), nil })
		c.start(t)
		synctest.Wait()
		same := CountableSettings{interval: time.Minute, timeout: time.Second}
		other := CountableSettings{interval: time.Hour, timeout: time.Second}
		for _, step := range []struct {
			use  map[string]CountableSettings
			want map[string]int64
		}{
			{map[string]CountableSettings{"gpu": same}, map[string]int64{"gpu": 1}},
			{map[string]CountableSettings{"gpu": same, "fpga": other}, map[string]int64{"gpu": 1, "fpga": 2}},
			{map[string]CountableSettings{"gpu": other, "fpga": other}, map[string]int64{"gpu": 3, "fpga": 2}},
			{map[string]CountableSettings{}, map[string]int64{}},
			{map[string]CountableSettings{"gpu": other}, map[string]int64{"gpu": 4}},
		} {
			c.Use(time.Now(), step.use)
			synctest.Wait()
			if got, _ := c.Counts(time.Now()); !cmp.Equal(step.want, got) {
				t.Errorf("%v, want %v", got, step.want)
			}
		}
	})
}

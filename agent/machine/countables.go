package machine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bursar/bursar/agent/loops"
	"github.com/bursar/bursar/internal/command"
)

const (
	// keptIntervals is how many intervals the last count is good for while runs fail.
	keptIntervals = 3
	// firstCounts is how long an agent that starts waits for the first counts, since without them
	// it would tell the coordinator that there are none.
	firstCounts = 10 * time.Second
)

// Countables are the custom countables that commands count. One loop runs the commands; any
// goroutine may ask for the counts.
type Countables struct {
	// count runs the command. It ends soon after ctx; processes that it leaves behind then are in
	// an *command.UndeadError.
	count func(ctx context.Context, of CountableSettings) (int64, error)
	log   *slog.Logger
	due   *loops.Wakeup
	runs  sync.WaitGroup // of the loop

	mu  sync.Mutex
	all map[string]*countable // guarded by mu, by name
}

// countable is one of them. Its fields are guarded by Countables.mu.
type countable struct {
	settings CountableSettings
	running  bool
	// undead is closed when the last command, which could not be killed, has ended; nil: there is
	// none.
	undead  <-chan struct{}
	next    time.Time // when it runs again
	amount  int64
	counted time.Time // when that was; zero: not yet
	err     error     // of the last run
	logged  bool      // the log has that it fails
}

// NewCountables returns Countables without any yet.
func NewCountables(now time.Time, log *slog.Logger) *Countables {
	return &Countables{count: countBy, log: log, due: loops.NewWakeup(now), all: make(map[string]*countable)}
}

// Use replaces the countables. One that stays the same keeps its count.
func (c *Countables) Use(now time.Time, wanted map[string]CountableSettings) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := false
	for name, settings := range wanted {
		if at := c.all[name]; at == nil || at.settings != settings {
			c.all[name] = &countable{settings: settings, next: now}
			changed = true
		}
	}
	maps.DeleteFunc(c.all, func(name string, _ *countable) bool {
		_, is := wanted[name]
		return !is
	})
	if changed {
		c.due.NoLaterThan(now)
	}
}

// First runs every command once, all at a time, and returns when they have ended, at the latest
// after firstCounts.
func (c *Countables) First(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, firstCounts, fmt.Errorf("killed after %s, as the agent starts", firstCounts))
	defer cancel()
	c.startDue(ctx, time.Now())
	c.runs.Wait()
}

// Loop runs the commands when they are due, until ctx ends and all have.
func (c *Countables) Loop(ctx context.Context) error {
	defer c.runs.Wait()
	for {
		now := time.Now()
		c.due.Set(c.nextDue(now), now)
		if !c.due.Wait(ctx) {
			return nil
		}
		c.startDue(ctx, time.Now())
	}
}

// nextDue is when the next command has to run.
func (c *Countables) nextDue(now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := now.Add(time.Hour) // use sets the wakeup when that changes
	for _, of := range c.all {
		if !of.running && of.next.Before(next) {
			next = of.next
		}
	}
	return next
}

// startDue starts the commands that are due. No command runs twice at a time, not even if the
// first run cannot be killed.
func (c *Countables) startDue(ctx context.Context, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, of := range c.all {
		if of.running || of.next.After(now) {
			continue
		}
		of.next = now.Add(of.settings.interval)
		if of.lingers() {
			continue
		}
		of.running = true
		c.runs.Go(func() {
			amount, err := c.count(ctx, of.settings)
			c.note(time.Now(), name, of, amount, err)
		})
	}
}

// lingers reports whether a command that was killed is still there.
func (of *countable) lingers() bool {
	if of.undead == nil {
		return false
	}
	select {
	case <-of.undead:
		of.undead = nil
		return false
	default:
		return true
	}
}

// note takes the outcome of a run.
func (c *Countables) note(now time.Time, name string, of *countable, amount int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of.running, of.err = false, err
	if undead, is := errors.AsType[*command.UndeadError](err); is {
		of.undead = undead.Gone
	}
	switch {
	case err != nil && !of.logged:
		of.logged = true
		c.log.Warn("a countable was not counted", "countable", name, "error", err)
	case err == nil && of.logged:
		of.logged = false
		c.log.Info("a countable is counted again", "countable", name, "amount", amount)
	}
	if err == nil {
		of.amount, of.counted = amount, now
	}
	c.due.NoLaterThan(of.next)
}

// Counts are how many there are of each, and, by name, why that is not known or not new. A count
// that could not be made again is good for three intervals; without one there are none.
func (c *Countables) Counts(now time.Time) (amounts map[string]int64, problems map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	amounts, problems = make(map[string]int64, len(c.all)), make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(c.all)) {
		of := c.all[name]
		age := now.Sub(of.counted)
		fresh := !of.counted.IsZero() && age <= keptIntervals*of.settings.interval
		amounts[name] = 0
		if fresh {
			amounts[name] = of.amount
		}
		switch {
		case of.err == nil && fresh:
		case of.counted.IsZero():
			problems[name] = fmt.Sprintf("not counted yet, so that there are none: %v", orNone(of.err))
		case fresh:
			problems[name] = fmt.Sprintf("%d as counted %s ago: %v", of.amount, age.Round(time.Second), of.err)
		default:
			problems[name] = fmt.Sprintf("not counted for %s, so that there are none: %v", age.Round(time.Second), orNone(of.err))
		}
	}
	return amounts, problems
}

// orNone is for a run that has not ended.
func orNone(err error) any {
	if err == nil {
		return "the command has not ended"
	}
	return err
}

package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// patient is a coordinator that is asked for signs of life.
type patient struct {
	alive  atomic.Bool
	probes atomic.Int64
	mu     sync.Mutex
	given  []string // up; guarded by mu
}

func (p *patient) probe(ctx context.Context, _ string) error {
	p.probes.Add(1)
	if p.alive.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (p *patient) hangs(url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.given = append(p.given, url)
}

func (p *patient) givenUp() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.given)
}

// longest is the longest time to detect a hanging coordinator.
const longest = quietFor*11/10 + quietFor*11/10 + probeTimeout

func watchOver(t *testing.T, p *patient, f func(l *liveness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLiveness(p.probe, p.hangs)
		f(l)
		l.close()
	})
}

// attemptAt begins an attempt and returns its context.
func attemptAt(l *liveness) (*attempt, context.Context) {
	ctx, cancel := context.WithCancelCause(context.Background())
	return l.begin("u", cancel), ctx
}

func TestAttemptAtACoordinatorThatHangsIsGivenUp(t *testing.T) {
	p := &patient{}
	watchOver(t, p, func(l *liveness) {
		began := time.Now()
		_, ctx := attemptAt(l)
		<-ctx.Done()
		synctest.Wait()
		if took := time.Since(began); took > longest || !errors.Is(context.Cause(ctx), errHangs) {
			t.Errorf("given up after %v, %v; want at most %v", took, context.Cause(ctx), longest)
		}
		if !slices.Equal(p.givenUp(), []string{"u"}) {
			t.Errorf("given up: %q", p.givenUp())
		}
	})
}

func TestCallMayWaitForAsLongAsItsCoordinatorLives(t *testing.T) {
	p := &patient{}
	p.alive.Store(true)
	watchOver(t, p, func(l *liveness) {
		a, ctx := attemptAt(l)
		time.Sleep(time.Hour)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Errorf("ended: %v", context.Cause(ctx))
		}
		if asked := p.probes.Load(); asked < 1800 || asked > 3000 {
			t.Errorf("asked %d times in an hour, want every %v", asked, quietFor)
		}
		p.alive.Store(false)
		began := time.Now()
		<-ctx.Done()
		synctest.Wait()
		if took := time.Since(began); took > longest {
			t.Errorf("given up after %v; want at most %v", took, longest)
		}
		a.end()
	})
}

func TestCoordinatorThatAnswersOthersIsNotAsked(t *testing.T) {
	p := &patient{}
	watchOver(t, p, func(l *liveness) {
		waits, ctx := attemptAt(l)
		for range 1000 {
			quick, _ := attemptAt(l)
			quick.markAlive()
			quick.end()
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if p.probes.Load() != 0 || ctx.Err() != nil {
			t.Errorf("asked %d times; %v", p.probes.Load(), context.Cause(ctx))
		}
		waits.end()
	})
}

func TestNobodyIsAskedWhenNobodyWaits(t *testing.T) {
	p := &patient{}
	watchOver(t, p, func(l *liveness) {
		a, ctx := attemptAt(l)
		a.markAlive()
		a.end()
		a.end()
		time.Sleep(time.Minute)
		synctest.Wait()
		if p.probes.Load() != 0 || len(l.byAddress) != 0 || ctx.Err() == nil {
			t.Errorf("asked %d times, %d watched, %v", p.probes.Load(), len(l.byAddress), ctx.Err())
		}
	})
}

// A caller whose deadline is too short for the detection must still go to another coordinator.
func TestShortDeadlinesGetAwayFromACoordinatorThatHangs(t *testing.T) {
	p := &patient{}
	watchOver(t, p, func(l *liveness) {
		began := time.Now()
		for len(p.givenUp()) == 0 && time.Since(began) < time.Minute {
			a, _ := attemptAt(l)
			time.Sleep(200 * time.Millisecond)
			a.end()
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		if took := time.Since(began); took > longest+time.Second {
			t.Errorf("found out after %v, want at most %v", took, longest)
		}
	})
}

func TestClosedWatchingAsksNobody(t *testing.T) {
	p := &patient{}
	watchOver(t, p, func(l *liveness) {
		_, ctx := attemptAt(l)
		time.Sleep(quietFor + quietFor/2) // a probe is under way
		l.close()
		time.Sleep(time.Minute)
		synctest.Wait()
		if ctx.Err() != nil || len(p.givenUp()) != 0 || len(l.byAddress) != 0 {
			t.Errorf("%v, %q, %d watched", context.Cause(ctx), p.givenUp(), len(l.byAddress))
		}
	})
}

package process

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// playedFreezer freezes nothing, and counts.
type playedFreezer struct {
	frozen, thawed int
	// slow: not all have stopped in time.
	slow bool
	err  error
	// stuck is the error of Thaw.
	stuck error
	// full: the cgroup has processes, whatever is found.
	full bool
	// whenFrozen is called next.
	whenFrozen func()
}

func (f *playedFreezer) Freeze(ctx context.Context) (bool, error) {
	f.frozen++
	if f.whenFrozen != nil {
		f.whenFrozen()
	}
	if f.err != nil {
		return false, f.err
	}
	return !f.slow, ctx.Err()
}

func (f *playedFreezer) Thaw() error { f.thawed++; return f.stuck }

func (f *playedFreezer) Empty(context.Context) (bool, error) { return !f.full, nil }

// kept is an engine with a keeper, both in the engine's cgroup, which ignore SIGTERM.
func kept(t *testing.T, p *testTree) (keeper, root *node, e Engine) {
	t.Helper()
	c := newCgroup(t, "bursar-test-freeze-"+p.name)
	t.Cleanup(func() {
		p.close()
		c.remove()
	})
	keeper = p.fork(p.nodes[0], alice, false, true)
	p.move(c, keeper, true)
	root = p.fork(keeper, alice, false, true)
	e = p.root(root)
	e.Cgroup, e.Made, e.Guarded = c.name, true, true
	return keeper, root, e
}

func TestTheKeeperIsSparedUntilItIsAloneForAWhile(t *testing.T) {
	o := openers(t)["pidfd"]
	p := newTestTree(t, o)
	keeper, root, e := kept(t, p)
	freezer := &playedFreezer{}
	e.Freezer = freezer
	thereAfterRoot := false
	freezer.whenFrozen = func() {
		thereAfterRoot = thereAfterRoot || !running(t, o, root.ref) && running(t, o, keeper.ref)
	}
	began := time.Now()
	if err := o.Stop(t.Context(), e, 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if !thereAfterRoot {
		t.Error("the keeper did not outlive its engine")
	}
	if took := time.Since(began); took < keeperPatience || running(t, o, keeper.ref) {
		t.Errorf("the keeper had %v; is there: %t", took, running(t, o, keeper.ref))
	}
	if freezer.frozen != freezer.thawed {
		t.Errorf("frozen %d times, thawed %d times", freezer.frozen, freezer.thawed)
	}
}

func TestAnEngineThatCannotBeFrozenIsStoppedAllTheSame(t *testing.T) {
	o := openers(t)["pidfd"]
	p := newTestTree(t, o)
	keeper, root, e := kept(t, p)
	freezer := &playedFreezer{err: errors.New("no freezer here")}
	e.Freezer = freezer
	if err := o.Stop(t.Context(), e, 10*time.Millisecond); err != nil {
		t.Error(err)
	}
	if running(t, o, keeper.ref) || running(t, o, root.ref) {
		t.Error("something is left")
	}
	if freezer.frozen != 1 || freezer.thawed != 1 {
		t.Errorf("frozen %d times, thawed %d times", freezer.frozen, freezer.thawed)
	}
}

func TestAStopThatEndsWhileItsCgroupIsFrozenThaws(t *testing.T) {
	o := openers(t)["pidfd"]
	p := newTestTree(t, o)
	_, _, e := kept(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	freezer := &playedFreezer{whenFrozen: cancel}
	e.Freezer = freezer
	if err := o.Stop(ctx, e, 10*time.Millisecond); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if freezer.frozen != 1 || freezer.thawed != 1 {
		t.Errorf("frozen %d times, thawed %d times", freezer.frozen, freezer.thawed)
	}
}

// A cgroup that stays frozen is named, whatever else went wrong: nothing in it runs any more.
func TestAThawThatFailsIsNamedNextToWhatElseFails(t *testing.T) {
	o := openers(t)["pidfd"]
	noFreeze, noThaw := errors.New("no freezer here"), errors.New("it stays frozen")
	t.Run("to freeze", func(t *testing.T) {
		_, root, e := kept(t, newTestTree(t, o))
		e.Freezer = &playedFreezer{err: noFreeze, stuck: noThaw}
		if err := o.Stop(t.Context(), e, 10*time.Millisecond); !errors.Is(err, noThaw) || !errors.Is(err, noFreeze) {
			t.Error(err)
		}
		if running(t, o, root.ref) {
			t.Error("something is left")
		}
	})
	t.Run("to freeze and to kill", func(t *testing.T) {
		c := start(t, o, "exit 0")
		_ = c.Wait()
		e := Engine{Root: c.ref, User: new(uint32(alice)), Freezer: &playedFreezer{err: noFreeze, stuck: noThaw, full: true}}
		err := o.Stop(t.Context(), e, 0)
		if _, survived := errors.AsType[*SurvivedError](err); !survived || !errors.Is(err, noFreeze) || !errors.Is(err, noThaw) {
			t.Error(err)
		}
	})
	t.Run("to go on", func(t *testing.T) {
		_, _, e := kept(t, newTestTree(t, o))
		ctx, cancel := context.WithCancel(t.Context())
		e.Freezer = &playedFreezer{whenFrozen: cancel, stuck: noThaw}
		if err := o.Stop(ctx, e, 10*time.Millisecond); !errors.Is(err, context.Canceled) || !errors.Is(err, noThaw) {
			t.Error(err)
		}
	})
	t.Run("nothing else", func(t *testing.T) {
		c := start(t, o, "exit 0")
		_ = c.Wait()
		freezer := &playedFreezer{stuck: noThaw}
		e := Engine{Root: c.ref, User: new(uint32(alice)), Freezer: freezer}
		if err := o.Stop(t.Context(), e, 0); !errors.Is(err, noThaw) {
			t.Error(err)
		}
	})
}

// A freezer that never stops all of them, as one waits for a device, ends what it can.
func TestWhatDoesNotFreezeIsKilledAllTheSame(t *testing.T) {
	o := openers(t)["pidfd"]
	c := start(t, o, `trap '' TERM; echo ready; while :; do sleep 1000; done`)
	c.says(t)
	c.reap()
	stop(t, o, Engine{Root: c.ref, Freezer: &playedFreezer{slow: true}}, 0)
	gone(t, o, c.ref)
}

// Without a freezer, a cgroup whose processes are gone before they can be read is not taken for
// empty.
func TestACgroupThatHasProcessesIsNotTakenForEnded(t *testing.T) {
	o := openers(t)["pidfd"]
	c := start(t, o, "exit 0")
	_ = c.Wait()
	e := Engine{Root: c.ref, User: new(uint32(alice)), Freezer: &playedFreezer{err: errors.New("no freezer here"), full: true}}
	err := o.Stop(t.Context(), e, 0)
	if survived, is := errors.AsType[*SurvivedError](err); !is || survived.Frozen || !strings.Contains(err.Error(), "faster than they can be found") {
		t.Error(err)
	}
}

func TestTheErrorNamesTheProcessesThatSurvive(t *testing.T) {
	err := error(&SurvivedError{Root: Ref{PID: 7}, Last: []int32{8, 9}, Frozen: true})
	if text := err.Error(); !strings.Contains(text, "process 7") || !strings.Contains(text, "pid 8, 9") {
		t.Error(text)
	}
}

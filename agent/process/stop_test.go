package process

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// long is a grace that no test waits for.
const long = time.Hour

func stop(t *testing.T, o *Opener, e Engine, grace time.Duration) {
	t.Helper()
	if err := o.Stop(t.Context(), e, grace); err != nil {
		t.Fatal(err)
	}
}

// sleeper is a command that tells its pid once the signals of the shell that started it are not its own any more.
const sleeper = `sh -c 'echo $$; exec sleep 1000'`

// reap takes note of a child's end as soon as it comes, as a launcher does.
func (c *child) reap() { go func() { _ = c.Wait() }() }

func TestStopLetsAnEngineEndInItsOwnWay(t *testing.T) {
	for name, o := range openers(t) {
		t.Run(name, func(t *testing.T) {
			c := start(t, o, `trap 'kill $!; echo bye; exit 0' TERM; `+sleeper+` & wait`)
			inner := c.saysPID(t, o)
			stop(t, o, Engine{Root: c.ref}, long)
			if got := c.says(t); got != "bye" {
				t.Errorf("it said %q", got)
			}
			gone(t, o, inner)
		})
	}
}

func TestStopKillsTheWholeTreeAfterTheGrace(t *testing.T) {
	for name, o := range openers(t) {
		t.Run(name, func(t *testing.T) {
			c := start(t, o, `trap '' TERM; sh -c 'trap "" TERM; sleep 1000 & echo $!; wait' & wait`)
			inner := c.saysPID(t, o)
			stop(t, o, Engine{Root: c.ref}, 50*time.Millisecond)
			gone(t, o, c.ref)
			gone(t, o, inner)
		})
	}
}

func TestStopEndsWhatAnEngineLeavesBehind(t *testing.T) {
	for name, o := range openers(t) {
		t.Run(name, func(t *testing.T) {
			c := start(t, o, `sh -c 'trap "" TERM; echo $$; while :; do sleep 1000; done' & wait`)
			inner := c.saysPID(t, o)
			c.reap()
			stop(t, o, Engine{Root: c.ref}, 100*time.Millisecond) // the outer shell ends by the signal, the inner one does not
			gone(t, o, inner)
		})
	}
}

func TestStopEndsOrphansOfARootThatHasEnded(t *testing.T) {
	o := openers(t)["pidfd"]
	c := start(t, o, sleeper+` &`)
	orphan := c.saysPID(t, o)
	_ = c.Wait()
	stop(t, o, Engine{Root: c.ref}, long)
	gone(t, o, orphan)
}

func TestStopEndsOrphansOfAZombie(t *testing.T) {
	o := openers(t)["pidfd"]
	c := start(t, o, sleeper+` &`)
	orphan := c.saysPID(t, o)
	gone(t, o, c.ref) // and nobody has taken note
	stop(t, o, Engine{Root: c.ref}, long)
	gone(t, o, orphan)
}

func TestStopWithoutGraceKills(t *testing.T) {
	o := openers(t)["pidfd"]
	c := start(t, o, `trap '' TERM; echo ready; while :; do sleep 1000; done`)
	c.says(t)
	stop(t, o, Engine{Root: c.ref}, 0)
	gone(t, o, c.ref)
}

func TestStopOfAnEngineThatHasEndedDoesNothing(t *testing.T) {
	o := openers(t)["pidfd"]
	c := start(t, o, "exit 0")
	_ = c.Wait()
	stop(t, o, Engine{Root: c.ref}, long)
}

func TestStopLeavesOthersOfTheGroupAlone(t *testing.T) {
	o := openers(t)["pidfd"]
	// The launcher, in whose session and group the engine runs, with a sibling of the engine.
	c := start(t, o, sleeper+` & `+sleeper+` & wait`)
	engine, sibling := c.saysPID(t, o), c.saysPID(t, o)
	stop(t, o, Engine{Root: engine}, long)
	gone(t, o, engine)
	if !running(t, o, sibling) || !running(t, o, c.ref) {
		t.Error("the launcher or a sibling was ended too")
	}
}

func TestStopNeverTakesAnotherProcessForTheEngine(t *testing.T) {
	o := openers(t)["pidfd"]
	c := start(t, o, "exec sleep 1000")
	// The pid of an engine that has ended was given to another process, which leads a session of that number.
	stop(t, o, Engine{Root: Ref{PID: c.ref.PID, StartTime: c.ref.StartTime - 1}}, 0)
	if !running(t, o, c.ref) {
		t.Error("a process that was not the engine was ended")
	}
}

func TestStopEndsWithItsContextAndLeavesTheEngine(t *testing.T) {
	o := openers(t)["pidfd"]
	c := start(t, o, `trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done`)
	c.says(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- o.Stop(ctx, Engine{Root: c.ref}, long) }()
	c.says(t)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's error", err)
	}
	if !running(t, o, c.ref) {
		t.Error("the engine was ended")
	}
}

func TestMembersAreTheTree(t *testing.T) {
	o := openers(t)["pidfd"]
	c := start(t, o, sleeper+` & setsid `+sleeper+` & wait`)
	want := []Ref{c.ref, c.saysPID(t, o), c.saysPID(t, o)}
	slices.SortFunc(want, func(a, b Ref) int { return int(a.PID - b.PID) })
	got, err := Members(proc, Engine{Root: c.ref})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(want, got) {
		t.Errorf("members %v, want %v", got, want)
	}
	// This process is above all of them, and never one itself.
	above, err := Members(proc, Engine{Root: self(t, o)})
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(above, self(t, o)) || !slices.Contains(above, c.ref) {
		t.Errorf("members of this process: %v", above)
	}
}

func TestMembersOfACgroupAreTheEngines(t *testing.T) {
	table := fixture(t, map[int]fake{
		10: {parent: 1, start: 100, cgroup: "/engines/a"},
		11: {parent: 1, start: 200, cgroup: "/engines/a/inner"}, // a daemon that left the tree
		12: {parent: 1, start: 200, cgroup: "/engines/ab"},
		13: {parent: 10, start: 300, cgroup: "/elsewhere"},
		14: {parent: 1, start: 300, cgroup: "/"},
	})
	got, err := Members(table, Engine{Root: Ref{PID: 10, StartTime: 100}, Cgroup: "/engines/a"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []Ref{{10, 100}, {11, 200}, {13, 300}}; !slices.Equal(want, got) {
		t.Errorf("members %v, want %v", got, want)
	}
	if _, err := Members(table+"/missing", Engine{Root: Ref{PID: 10, StartTime: 100}}); err == nil {
		t.Error("a process table that is not there was read")
	}
}

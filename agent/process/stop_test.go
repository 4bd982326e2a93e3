package process

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
)

// long is a grace that no test waits for.
const long = time.Hour

// stop ends an engine of this user.
func stop(t *testing.T, o *Opener, e Engine, grace time.Duration) {
	t.Helper()
	e.User = new(uint32(os.Getuid()))
	if err := o.Stop(t.Context(), e, grace); err != nil {
		t.Fatal(err)
	}
}

// endsWhen is the end of a script that goes on until the test says so.
const endsWhen = " read _"

// passed returns when a clock tick is over: 10 ms at most.
func passed(tick uint64) {
	for now() <= tick {
		runtime.Gosched()
	}
}

// leaves waits until the root has started what its script says, holds the root as an agent does,
// and ends it.
func (c *child) leaves(t *testing.T, o *Opener) (left Ref, e Engine) {
	t.Helper()
	left = c.saysPID(t, o)
	h, err := o.Open(c.ref)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	passed(left.StartTime)
	h.Touch()
	_ = c.in.Close()
	gone(t, o, c.ref)
	return left, Engine{Root: c.ref, LastAlive: h.LastAlive()}
}

// sleeper is a command that tells its pid once the signals of the shell that started it are not
// its own any more.
const sleeper = `sh -c 'echo $$; exec sleep 1000'`

// reap takes note of a child's end as soon as it comes, as a launcher does. The end of the test
// waits for the command, too, which may be done once only.
func (c *child) reap() { go func() { _, _ = c.Process.Wait() }() }

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
			// the outer shell ends by the signal, the inner one does not
			stop(t, o, Engine{Root: c.ref}, 100*time.Millisecond)
			gone(t, o, inner)
		})
	}
}

func TestStopEndsOrphansOfARootThatHasEnded(t *testing.T) {
	o := openers(t)["pidfd"]
	c := start(t, o, sleeper+` &`+endsWhen)
	orphan, e := c.leaves(t, o)
	_ = c.Wait()
	stop(t, o, e, long)
	gone(t, o, orphan)
}

func TestStopEndsOrphansOfAZombie(t *testing.T) {
	o := openers(t)["pidfd"]
	c := start(t, o, sleeper+` &`+endsWhen)
	orphan, e := c.leaves(t, o) // its parent has not waited for it
	e.LastAlive = 0
	stop(t, o, e, long)
	gone(t, o, orphan)
}

func TestStopEndsWhatTheRootStartsAtItsEnd(t *testing.T) {
	for name, o := range openers(t) {
		for then, script := range map[string]string{"and nobody takes note of that": "exit", "and goes on for a while": "sleep 0.5; exit"} {
			t.Run(name+" "+then, func(t *testing.T) {
				c := start(t, o, `trap "trap '' TERM; sh -c 'echo begun; while :; do sleep 1000; done' & `+script+`" TERM; echo ready; read _`)
				c.says(t)
				if script != "exit" {
					go func() { _, _ = c.Process.Wait() }()
				}
				stop(t, o, Engine{Root: c.ref}, 3*time.Second) // enough to say so
				c.says(t)                                      // it was started
				if left, err := Members(proc, Engine{Root: c.ref, LastAlive: now()}); len(left) > 0 || err != nil {
					t.Errorf("left: %v, %v", left, err)
				}
			})
		}
	}
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
	// The pid of an engine that has ended was given to another process, which leads a session of
	// that number.
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
	go func() { done <- o.Stop(ctx, Engine{Root: c.ref, User: new(uint32(os.Getuid()))}, long) }()
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

func TestWhoIsInACgroupIsFound(t *testing.T) {
	table := fixture(t, map[int]fake{
		10: {parent: 1, start: 100, cgroup: "/engines/a"},
		11: {parent: 1, start: 200, cgroup: "/engines/a/inner"}, // a daemon that left the tree
		12: {parent: 1, start: 200, cgroup: "/engines/ab"},
		13: {parent: 10, start: 300, cgroup: "/elsewhere"},
		14: {parent: 1, start: 300, cgroup: "/"},
		15: {parent: 13, start: 299, cgroup: "/"}, // its parent's pid came after it
	})
	e := Engine{Root: Ref{PID: 10, StartTime: 100}, Cgroup: "/engines/a"}
	got, err := findProcesses(table, e, newDescent(e))
	if err != nil {
		t.Fatal(err)
	}
	want := []found{{Ref: Ref{10, 100}, descends: true, inside: true}, {Ref: Ref{11, 200}, inside: true}, {Ref: Ref{13, 300}, descends: true}}
	if !slices.Equal(want, got) {
		t.Errorf("found %v, want %v", got, want)
	}
	if _, err := Members(table+"/missing", e); err == nil {
		t.Error("a process table that is not there was read")
	}
}

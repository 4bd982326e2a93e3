package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test plays several users: it needs root")
	}
}

// startAs runs a script as a user and in a session of its own.
func startAs(t *testing.T, o *Opener, uid uint32, script string) *child {
	t.Helper()
	needsRoot(t)
	return startWith(t, o, &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uid, Gid: uid}}, script)
}

// stopAlone stops an engine and returns who was left alone.
func stopAlone(t *testing.T, o *Opener, e Engine) LeftError {
	t.Helper()
	err := o.Stop(t.Context(), e, 10*time.Millisecond)
	if left, ok := errors.AsType[*LeftError](err); ok {
		return *left
	}
	if err != nil {
		t.Fatal(err)
	}
	return LeftError{}
}

// numberNext makes a number the next that the kernel gives away, if it is free.
func numberNext(t tester, pid int32) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(int(pid)-1)), 0); err != nil {
		t.Fatal(err)
	}
}

// startAt starts a script with a pid of one's choice; nil: another process was faster, which may
// keep it.
func startAt(t *testing.T, o *Opener, pid int32, uid uint32, script string) *child {
	t.Helper()
	for range 10 {
		numberNext(t, pid)
		c := startAs(t, o, uid, script)
		if c.ref.PID == pid {
			return c
		}
		_ = c.in.Close()
		_ = c.Wait()
	}
	return nil
}

// goneEngine is an engine of alice's of which nothing is left.
func goneEngine(t *testing.T, o *Opener) Engine {
	t.Helper()
	orphansAreOurs(t)
	c := startAs(t, o, alice, sleeper+" &"+endsWhen)
	last, e := c.leaves(t, o)
	e.User = new(uint32(alice))
	if err := syscall.Kill(int(last.PID), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	if _, err := syscall.Wait4(int(last.PID), nil, 0, nil); err != nil {
		// as long as it is a zombie the number is taken
		t.Fatal(err)
	}
	return e
}

// The kernel gives the number of a session away once its last process has gone.
func TestStopLeavesASessionAloneThatHasTheNumberOfTheEngines(t *testing.T) {
	o := openers(t)["pidfd"]
	for name, uid := range map[string]uint32{"of another user": bob, "of the same user": alice, "of root": 0} {
		t.Run(name, func(t *testing.T) {
			e := goneEngine(t, o)
			stranger := startAt(t, o, e.Root.PID, uid, sleeper+" &"+endsWhen)
			for stranger == nil {
				e = goneEngine(t, o)
				stranger = startAt(t, o, e.Root.PID, uid, sleeper+" &"+endsWhen)
			}
			daemon, _ := stranger.leaves(t, o)
			_ = stranger.Wait()
			defer func() { _ = syscall.Kill(int(daemon.PID), syscall.SIGKILL) }()
			left := stopAlone(t, o, e)
			if !running(t, o, daemon) {
				t.Error("a stranger's daemon was ended")
			}
			if told := slices.Contains(left.Unproven, daemon.PID); told != (uid == alice) || len(left.Foreign) > 0 {
				t.Errorf("left: %+v", left)
			}
		})
	}
}

// leavesItsSession stops an engine of which a child ignores SIGTERM, leaves the session once the
// root has gone, and ends within the grace. Between, the stranger leaves a daemon in a session of
// the same number. False: another process got that number.
func leavesItsSession(t *testing.T, o *Opener, user, stranger uint32) bool {
	t.Helper()
	p := newTestTree(t, o)
	defer p.close()
	root := p.fork(p.nodes[0], user, true, true)
	child := p.fork(root, user, false, false)
	stopped := make(chan error, 1)
	e := p.root(root)
	go func() { stopped <- o.Stop(t.Context(), e, long) }()
	for p.signalled(child) == "" {
		runtime.Gosched()
	}
	p.tells(child, "setsid")
	passed(now()) // no number comes again within a tick but by this test
	c := startAt(t, o, root.ref.PID, stranger, sleeper+" &"+endsWhen)
	var daemon Ref
	if c != nil {
		daemon, _ = c.leaves(t, o)
		_ = c.Wait()
		defer func() { _ = syscall.Kill(int(daemon.PID), syscall.SIGKILL) }()
	}
	p.tells(child, "exit")
	if err, left := <-stopped, (&LeftError{}); err != nil && !errors.As(err, &left) {
		t.Fatal(err)
	}
	if c != nil && !running(t, o, daemon) {
		t.Error("a stranger's daemon was ended")
	}
	return c != nil
}

// The end of who was in the session at the last look says nothing: it may have left it since.
func TestStopLeavesASessionAloneWhoseNumberComesAgainMeanwhile(t *testing.T) {
	for name, o := range openers(t) {
		for whose, uids := range map[string][2]uint32{"of the same user": {alice, alice}, "of another user than root": {0, bob}} {
			t.Run(name+" "+whose, func(t *testing.T) {
				for !leavesItsSession(t, o, uids[0], uids[1]) { //nolint:revive // until the number comes again
				}
			})
		}
	}
}

// Without a number that comes again: all that is known of the engine is that it had this pid, and
// was there some time before.
func TestStopKnowsTheProcessesOfASessionByTheirAge(t *testing.T) {
	o := openers(t)["pidfd"]
	for name, c := range map[string]struct {
		rootStart, lastAlive func(start uint64) uint64
		ended                bool
	}{
		"started while the root was there": {back(0), func(start uint64) uint64 { return start + 1 }, true},
		"started when it was last seen":    {back(100), back(0), false},
		"started after it was last seen":   {back(100), back(50), false},
		"nobody has seen the root":         {back(0), func(uint64) uint64 { return 0 }, false},
		"older than the root":              {func(start uint64) uint64 { return start + 5 }, func(start uint64) uint64 { return start + 10 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			shell := start(t, o, sleeper+" &"+endsWhen)
			daemon, _ := shell.leaves(t, o)
			_ = shell.Wait()
			left := stopAlone(t, o, Engine{
				Root: Ref{PID: shell.ref.PID, StartTime: c.rootStart(daemon.StartTime)}, LastAlive: c.lastAlive(daemon.StartTime), User: new(uint32(os.Getuid())),
			})
			if running(t, o, daemon) == c.ended || slices.Contains(left.Unproven, daemon.PID) == c.ended {
				t.Errorf("runs: %t, left: %+v", running(t, o, daemon), left)
			}
		})
	}
}

func back(ticks uint64) func(uint64) uint64 {
	return func(start uint64) uint64 { return start - ticks }
}

// A process that was not there to be seen is known by one of its session that was.
func TestStopEndsWhatAnOrphanOfTheSessionHasStarted(t *testing.T) {
	o := openers(t)["pidfd"]
	c := start(t, o, `sh -c 'echo $$; read _; sh -c "echo \$\$; exec sleep 1000" & exec sleep 1000' <&0 & wait $!`)
	older := c.saysPID(t, o)
	passed(older.StartTime)
	e := Engine{Root: c.ref, LastAlive: now()}
	// The root ends, and later the orphan starts another one.
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Process.Release()
	_, _ = syscall.Wait4(c.Process.Pid, nil, 0, nil)
	passed(e.LastAlive)
	_ = c.in.Close()
	younger := c.saysPID(t, o)
	stop(t, o, e, long)
	gone(t, o, older)
	gone(t, o, younger)
}

// What a program that is set-uid has started is root's or somebody else's, whom the engine's user
// could not end either.
func TestStopLeavesDescendantsOfAnotherUserAlone(t *testing.T) {
	p := newTestTree(t, openers(t)["pidfd"])
	defer p.close()
	engine := p.fork(p.nodes[0], alice, true, true)
	e := p.root(engine)
	raised, below := p.fork(engine, 0, false, false), p.fork(engine, bob, false, false)
	own := p.fork(raised, alice, false, false)
	left := stopAlone(t, p.o, e)
	for n, ends := range map[*node]bool{engine: true, raised: false, below: false, own: true} {
		if running(t, p.o, n.ref) == ends {
			t.Errorf("%v: want it ended: %t", n, ends)
		}
	}
	if want := []int32{raised.ref.PID, below.ref.PID}; !slices.Equal(want, left.Foreign) {
		t.Errorf("left: %+v, want %v", left, want)
	}
	// Nor is the root of an engine that has become somebody else since; one of root has power over
	// whom it starts.
	sudo := p.fork(p.nodes[0], alice, true, true)
	e = p.root(sudo)
	p.tells(sudo, "become 0")
	if stopAlone(t, p.o, e); !running(t, p.o, sudo.ref) {
		t.Error("the root has become root, and was ended")
	}
	user := p.fork(sudo, alice, false, false)
	e.User = new(uint32(0))
	if stopAlone(t, p.o, e); running(t, p.o, sudo.ref) || running(t, p.o, user.ref) {
		t.Error("an engine of root was not ended")
	}
}

// A user who may write to a cgroup can bring in any of their processes.
func TestStopLeavesOthersAloneThatHaveEnteredTheEnginesCgroup(t *testing.T) {
	for name, c := range map[string]struct {
		user    uint32
		guarded bool
		ends    []uint32 // of those who have entered
	}{
		"of a user":                         {user: alice, ends: []uint32{alice}},
		"of root":                           {user: 0},
		"that the agent alone can write to": {user: alice, guarded: true, ends: []uint32{0, alice, bob}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestTree(t, openers(t)["pidfd"])
			cgroup := newCgroup(t, fmt.Sprintf("bursar-test-process-%d", os.Getpid()))
			defer cgroup.remove()
			defer p.close()
			engine := p.fork(p.nodes[0], c.user, false, true)
			e := p.root(engine)
			e.Cgroup, e.Guarded = cgroup.name, c.guarded
			p.move(cgroup, engine, true)
			for _, uid := range []uint32{0, alice, bob} {
				p.move(cgroup, p.fork(p.nodes[0], uid, false, true), true)
			}
			if c.user != 0 {
				p.move(cgroup, p.nodes[0], true) // who has started it
			}
			stopAlone(t, p.o, e)
			if running(t, p.o, engine.ref) {
				t.Error("the engine was left")
			}
			for _, n := range p.nodes[2:] {
				if ends := slices.Contains(c.ends, n.uid); running(t, p.o, n.ref) == ends {
					t.Errorf("%v: want it ended: %t", n, ends)
				}
			}
		})
	}
}

// A tree that is larger than what one Stop may hold is ended in several rounds, and others have
// descriptors meanwhile.
func TestStopEndsMoreThanItHolds(t *testing.T) {
	o := openers(t)["pidfd"]
	c := start(t, o, `trap '' TERM; i=0; while [ $i -lt 300 ]; do sleep 1000 & i=$((i+1)); done; echo ready; wait`)
	c.says(t)
	o.slots = make(slots, 20)
	for range cap(o.slots) {
		o.slots.release()
	}
	c.reap()
	stop(t, o, Engine{Root: c.ref, LastAlive: now()}, 50*time.Millisecond)
	if left, err := Members(proc, Engine{Root: c.ref, LastAlive: now()}); len(left) > 0 || err != nil {
		// those that were not reaped do not count
		t.Errorf("left: %v, %v", left, err)
	}
	if len(o.slots) != cap(o.slots) {
		t.Errorf("%d of %d places are free", len(o.slots), cap(o.slots))
	}
}

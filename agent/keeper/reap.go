package keeper

import (
	"cmp"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// death is the end of a child: the main process, or one that the kernel has given to the keeper.
type death struct {
	pid  int
	exit Exit
	used unix.Rusage // of the process, and of those that it has waited for
}

// await waits for all processes of the engine, notes in e.ended how they ended, and returns when
// the last one has ended. Every descendant of the keeper that has lost its parent is the keeper's
// child, so without a child there is no process of the engine.
func (e *engine) await() {
	deaths := make(chan death)
	go reap(deaths)
	left := time.NewTimer(0)
	if !left.Stop() {
		<-left.C
	}
	defer left.Stop()
	var leader, last time.Time // when the main process ended, and when only the helper was left
	var over <-chan time.Time  // set once only the helper is left
	var again <-chan time.Time // set while a helper may start just when the last process ends
	leave := func(now time.Time) {
		if over == nil && !leader.IsZero() && e.helper.alone() {
			left.Stop()
			e.helper.stop()
			last, over = now, time.After(helperEnd)
		}
	}
	for {
		select {
		case d, more := <-deaths:
			now := time.Now().UTC()
			if more && (e.helper.waited(d) || over != nil) {
				continue // it is none of the engine's
			}
			if more {
				e.ended.Use.add(useOf(&d.used, e.ownRSS))
			}
			switch {
			case !more:
				e.end(cmp.Or(leader, now), cmp.Or(last, now))
				return
			case d.pid == e.process.Pid:
				e.ended.Exit, leader = d.exit, now
				left.Reset(leftAfter)
				again = e.helper.next()
			case !leader.IsZero():
				e.follow(d.exit)
			}
			leave(now)
		case <-again:
			leave(time.Now().UTC())
			again = e.helper.next()
		case <-over:
			if e.helper.lives() { // a file system holds it
				e.end(leader, last)
				return
			}
			// A process lives whose first thread has ended: it looked as if it had ended.
			over, last = nil, time.Time{}
			left.Reset(leftAfter)
		case <-left.C:
			e.ended.LeaderTime = &leader
			e.write(Record{Exit: e.ended.Exit, Time: leader, Left: true})
		}
	}
}

// follow notes that a process has ended after the main one.
func (e *engine) follow(exit Exit) {
	if last := e.ended.Last; last != nil && last.Signal != 0 {
		e.ended.Killed++
		e.ended.KilledBy = last.Signal
	}
	e.ended.Last = &exit
}

// end completes the record of an engine of which no process is left.
func (e *engine) end(leader, now time.Time) {
	r := &e.ended
	killed := r.Exit.killed()
	r.Time = now
	if r.LeaderTime == nil { // the others have ended with it
		r.Time, r.Last, r.Killed, r.KilledBy = leader, nil, 0, 0
	} else {
		killed = killed || r.Last != nil && r.Last.killed() || r.KilledBy == int32(unix.SIGKILL)
	}
	if e.ownCgroup && killed {
		kills, known := oomKills("/")
		r.OutOfMemory = known && kills > e.killsBefore
	}
}

// reap waits for children until there is none, tells the end of each, and closes the channel.
func reap(deaths chan<- death) {
	defer close(deaths)
	for {
		var info siginfo
		var used unix.Rusage
		err := unix.Waitid(unix.P_ALL, 0, info.asUnix(), unix.WEXITED|unix.WALL, &used)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return
		default:
			deaths <- death{int(info.pid), info.exit(), used}
		}
	}
}

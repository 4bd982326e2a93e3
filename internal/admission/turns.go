package admission

import (
	"runtime"
	"sync"
	"time"
)

const (
	// startsEach is how many streams of one owner may begin at a time, for each processor, before
	// their requests are counted. Each is a goroutine that can run.
	startsEach = 8
	// startTime is how long the next stream waits for the requests of those before it. A stream
	// whose header breaks the rules of HTTP/2 never becomes a request: after that time, all streams
	// that have begun are believed to be such.
	startTime = 100 * time.Millisecond
)

// turns let a few connections of HTTP/2 of one owner be read at a time. Without it, all that one
// caller sends over many connections would be runnable at once, and the requests of others would
// wait behind it. A connection has its turn from when bytes have come until it wants the next ones:
// then the server has handled the frame in them.
//
// They also bound the streams whose requests are not counted yet. HTTP/2 lets a client reset a
// stream and begin the next one before the request of the first was seen by a handler. A stream
// counts as starting from the header of its first frame until its request is counted, or ends.
type turns struct {
	reads, starts int

	mu     sync.Mutex
	owners map[string]*turnOwner // guarded by mu; by Caller.ID, as long as a connection is theirs
}

// turnOwner is one caller. It is guarded by the lock of turns.
type turnOwner struct {
	id                string
	connections       int
	reading, starting int
	// forgiven counts how often startTime was over, and starting began at 0 again.
	forgiven int
	// Those that wait, in the order in which they came.
	toRead, toStart []*turnWaiter
}

// turnWaiter is one connection that waits.
type turnWaiter struct {
	gate    *gate
	granted chan struct{} // closed when it is granted
}

func newTurns() *turns {
	processors := runtime.GOMAXPROCS(0)
	return &turns{reads: processors, starts: startsEach * processors, owners: make(map[string]*turnOwner)}
}

// gate is the part of one connection. It is guarded by the lock of turns.
type gate struct {
	turns    *turns
	owner    *turnOwner // nil: none yet, or it is closed
	reading  bool       // it has its turn
	starting int        // of owner's
	forgiven int        // of owner, when starting was last set
	ended    chan struct{}
	closed   bool
}

func newGate(t *turns) *gate { return &gate{turns: t, ended: make(chan struct{})} }

// ownLocked makes the connection a caller's. It must not be read at the moment.
func (g *gate) ownLocked(id string) {
	if g.owner != nil && g.owner.id == id {
		return
	}
	starting := g.startingLocked()
	g.disownLocked()
	o := g.turns.owners[id]
	if o == nil {
		o = &turnOwner{id: id}
		g.turns.owners[id] = o
	}
	o.connections++
	o.starting += starting
	g.owner, g.starting, g.forgiven = o, starting, o.forgiven
}

// disownLocked gives back all that the connection has.
func (g *gate) disownLocked() {
	o := g.owner
	if o == nil {
		return
	}
	g.leaveLocked()
	o.starting -= g.startingLocked()
	g.starting = 0
	g.owner = nil
	if o.connections--; o.connections == 0 {
		delete(g.turns.owners, o.id)
	}
	o.grantStarts(g.turns.starts)
}

// startingLocked is how many streams of the connection are starting.
func (g *gate) startingLocked() int {
	if g.owner == nil || g.forgiven != g.owner.forgiven {
		return 0
	}
	return g.starting
}

// enter waits for the turn of a connection of a caller, and for as many streams as begin in what
// was read.
func (g *gate) enter(id string, begun int) {
	t := g.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	if g.closed {
		return
	}
	g.ownLocked(id)
	for range begun {
		g.startLocked()
	}
	if o := g.owner; o != nil {
		if o.reading >= t.reads {
			g.awaitLocked(&o.toRead, nil) // who grants it counts it
			return
		}
		o.reading++
		g.reading = true
	}
}

// startLocked counts one more stream as starting.
func (g *gate) startLocked() {
	t, o := g.turns, g.owner
	if o == nil {
		return
	}
	if o.starting < t.starts {
		g.countStartLocked()
		return
	}
	late := time.NewTimer(startTime)
	defer late.Stop()
	if g.awaitLocked(&o.toStart, late.C) || g.closed { // who grants it counts it
		return
	}
	o.starting = 0
	o.forgiven++
	g.countStartLocked()
	o.grantStarts(t.starts)
}

func (g *gate) countStartLocked() {
	if g.forgiven != g.owner.forgiven {
		g.starting, g.forgiven = 0, g.owner.forgiven
	}
	g.starting++
	g.owner.starting++
}

// awaitLocked waits in a list, without the lock, until it is granted, the connection is closed, or
// it is too late. It reports whether it was granted.
func (g *gate) awaitLocked(list *[]*turnWaiter, late <-chan time.Time) (granted bool) {
	w := &turnWaiter{gate: g, granted: make(chan struct{})}
	*list = append(*list, w)
	g.turns.mu.Unlock()
	select {
	case <-w.granted:
	case <-g.ended:
	case <-late:
	}
	g.turns.mu.Lock()
	select {
	case <-w.granted:
		return true
	default:
	}
	for i, other := range *list {
		if other == w {
			*list = append((*list)[:i], (*list)[i+1:]...)
			break
		}
	}
	return false
}

// next takes the first of a list that is not closed; nil: there is none.
func next(list *[]*turnWaiter) *turnWaiter {
	for len(*list) > 0 {
		w := (*list)[0]
		(*list)[0] = nil
		*list = (*list)[1:]
		if !w.gate.closed {
			return w
		}
	}
	return nil
}

// leave says that the server wants the next bytes.
func (g *gate) leave() {
	g.turns.mu.Lock()
	defer g.turns.mu.Unlock()
	g.leaveLocked()
}

func (g *gate) leaveLocked() {
	if !g.reading {
		return
	}
	g.reading = false
	if w := next(&g.owner.toRead); w != nil {
		w.gate.reading = true
		close(w.granted)
		return
	}
	g.owner.reading--
}

// started says that the request of a stream is counted, or has ended.
func (g *gate) started() {
	g.turns.mu.Lock()
	defer g.turns.mu.Unlock()
	if g.startingLocked() == 0 {
		return
	}
	g.starting--
	g.owner.starting--
	g.owner.grantStarts(g.turns.starts)
}

// grantStarts lets streams begin that wait, as long as there may be more.
func (o *turnOwner) grantStarts(limit int) {
	for o.starting < limit {
		w := next(&o.toStart)
		if w == nil {
			return
		}
		w.gate.countStartLocked()
		close(w.granted)
	}
}

// close gives back all that the connection has.
func (g *gate) close() {
	g.turns.mu.Lock()
	defer g.turns.mu.Unlock()
	if !g.closed {
		g.closed = true
		close(g.ended)
		g.disownLocked()
	}
}

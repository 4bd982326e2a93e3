package admission

import (
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/internal/pause"
)

const (
	// startsEach is how many streams of one owner may begin at a time, for each processor, before
	// their requests are counted. Each stream is a runnable goroutine.
	startsEach = 8
	// firstFrames is how many frames of a connection go ahead of its owner's other connections, if
	// no more than one stream has begun in them. So a flood does not keep other callers of the same
	// address from showing their identity: then the connection counts on its caller. To accept a
	// connection costs the server more than so many frames do.
	firstFrames = 8
	// keptOwners is the number of owners above which owners without a connection are forgotten.
	keptOwners = 1024
	// startTime is how long the next stream waits for the requests of earlier streams. A stream
	// whose header breaks the rules of HTTP/2 never becomes a request: after that time, the server
	// treats all starting streams as such.
	startTime = 100 * time.Millisecond
	// goneEvery is how often a waiting connection checks whether its peer has gone: meanwhile no
	// goroutine reads its end.
	goneEvery = time.Second
)

// turns lets the server read from a few HTTP/2 connections of one owner at a time. Without it, the
// streams that one caller sends over many connections would all be runnable at once, and the
// requests of others would wait behind them. The turn of a connection lasts from the arrival of
// bytes until the server wants the next ones: then it has handled the frame in them.
//
// turns also bounds the streams whose requests are not counted yet. HTTP/2 lets a client reset a
// stream and begin the next one before a handler saw the request of the first. A stream counts as
// starting from the header of its first frame until its request is counted, or ends.
type turns struct {
	reads, starts int

	mu sync.Mutex
	// owners is indexed by Caller.ID. An owner without a connection stays as long as its frames
	// count, so that they count if it connects again. Guarded by mu.
	owners map[string]*turnOwner
	// sweepAt is the number of owners at which the next sweep is due. Guarded by mu.
	sweepAt int
}

// turnOwner is one caller. It is guarded by the lock of turns.
type turnOwner struct {
	id          string
	connections int
	starting    int
	frames      framePace
	// turns is the lane of connections that are read, and beginning the lane of those that begin:
	// one at a time, next to the others.
	turns, beginning lane
	// forgiven counts how often startTime passed and starting began at 0 again.
	forgiven int
	// late calls forgive. Nil: no stream waits.
	late *time.Timer
	// toStart are the streams that wait to begin, in order of arrival.
	toStart []*turnWaiter
}

// lane counts the connections that are read, and queues the others in order of arrival. It is
// guarded by the lock of turns.
type lane struct {
	reading int
	waiting []*turnWaiter
}

// turnWaiter is one waiting connection.
type turnWaiter struct {
	gate    *gate
	granted chan struct{} // closed when the turn is granted
}

func newTurns() *turns {
	processors := runtime.GOMAXPROCS(0)
	return &turns{reads: processors, starts: startsEach * processors, owners: make(map[string]*turnOwner), sweepAt: keptOwners}
}

// gate is the state of one connection in turns. It is guarded by the lock of turns.
type gate struct {
	turns    *turns
	owner    *turnOwner // nil: none yet, or the connection is closed
	lane     *lane      // the owner's lane of the current turn; nil: no turn
	begun    int        // streams
	entered  int        // number of reads
	starting int        // its part of owner.starting
	forgiven int        // of owner, when starting was last set
	spent    int        // frames before the first admitted request
	known    bool       // an admitted request has come
	ended    chan struct{}
	closed   bool
	// endIfGone closes the connection if its peer has gone. Nil: no check.
	endIfGone func()

	// These make frames free, and are not guarded: the admitted requests that were answered, the
	// bytes sent, and whether a request was admitted.
	answered, sent atomic.Int64
	let            atomic.Bool
}

func newGate(t *turns) *gate { return &gate{turns: t, ended: make(chan struct{})} }

// ownLocked makes a caller the owner of the connection, which must not be in its turn.
func (g *gate) ownLocked(id string) {
	if g.owner != nil && g.owner.id == id {
		return
	}
	starting := g.startingLocked()
	g.disownLocked()
	o := g.turns.owners[id]
	if o == nil {
		g.turns.sweepLocked()
		o = &turnOwner{id: id}
		g.turns.owners[id] = o
	}
	o.connections++
	o.starting += starting
	g.owner, g.starting, g.forgiven = o, starting, o.forgiven
}

// disownLocked gives back the turn and the starting streams of the connection.
func (g *gate) disownLocked() {
	o := g.owner
	if o == nil {
		return
	}
	g.leaveLocked()
	o.starting -= g.startingLocked()
	g.starting = 0
	g.owner = nil
	if o.connections--; o.connections == 0 && o.frames.isUnused(time.Now()) {
		delete(g.turns.owners, o.id)
	}
	o.grantStarts(g.turns.starts)
}

// sweepLocked forgets owners without a connection, if there are many owners.
func (t *turns) sweepLocked() {
	if len(t.owners) < t.sweepAt {
		return
	}
	now := time.Now()
	maps.DeleteFunc(t.owners, func(_ string, o *turnOwner) bool { return o.connections == 0 && o.frames.isUnused(now) })
	t.sweepAt = max(keptOwners, 2*len(t.owners))
}

// startingLocked returns how many streams of the connection are starting.
func (g *gate) startingLocked() int {
	if g.owner == nil || g.forgiven != g.owner.forgiven {
		return 0
	}
	return g.starting
}

// enter waits for the turn of a caller's connection, and for the right to begin the streams in the
// bytes that were read. light is how many possibly useless frames begin in these bytes.
func (g *gate) enter(id string, begun, light int) {
	t := g.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	if g.closed {
		return
	}
	g.ownLocked(id)
	first := g.isFirstLocked(begun, light)
	for range begun {
		if first {
			g.countStartLocked()
		} else {
			g.startLocked()
		}
	}
	o := g.owner
	if o == nil {
		return
	}
	l, most := &o.turns, t.reads
	if first {
		l, most = &o.beginning, 1
	}
	if l.reading < most {
		l.reading++
		g.lane = l
	} else if !g.awaitLocked(&l.waiting) { // leaveLocked counts it
		return
	}
	if light == 0 {
		return
	}
	g.spent += light
	g.freeLocked()
	// The connection keeps its turn: other connections of the owner wait, too.
	if sleep := o.frames.take(light, time.Now()); sleep > 0 && !first {
		t.mu.Unlock()
		pause.For(sleep, g.ended, nil)
		t.mu.Lock()
	}
}

// isFirstLocked counts a read and its streams, and reports whether the read is among the first
// frames of the connection.
func (g *gate) isFirstLocked(begun, light int) bool {
	g.begun += begun
	g.entered++
	// a frame's header and its payload are two reads
	return g.begun <= 1 && g.spent+light <= firstFrames && g.entered <= 2*firstFrames
}

// freeLocked takes the frames of answered calls out of the count. The first frames of a connection
// become free with its first admitted call: many agents can come from one address.
func (g *gate) freeLocked() {
	free := int(g.answered.Swap(0)) * framesOfCall
	if sent := g.sent.Load(); sent >= bytesOfFrame {
		free += int(sent / bytesOfFrame)
		g.sent.Add(-sent)
	}
	if !g.known && g.let.Load() {
		g.known = true
		free += min(g.spent, framesOfCall)
	}
	if free > 0 && g.owner != nil {
		g.owner.frames.free(free)
	}
}

// startLocked counts one more stream as starting. It waits if there are too many.
func (g *gate) startLocked() {
	t, o := g.turns, g.owner
	if o == nil {
		return
	}
	if o.starting < t.starts {
		g.countStartLocked()
		return
	}
	if o.late == nil {
		o.late = time.AfterFunc(startTime, func() { t.forgive(o) })
	}
	g.awaitLocked(&o.toStart) // grantStarts counts it
}

// forgive assumes that no starting stream of an owner will become a request.
func (t *turns) forgive(o *turnOwner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o.late = nil
	if len(o.toStart) == 0 {
		return
	}
	o.starting = 0
	o.forgiven++
	o.grantStarts(t.starts)
	if len(o.toStart) > 0 {
		o.late = time.AfterFunc(startTime, func() { t.forgive(o) })
	}
}

func (g *gate) countStartLocked() {
	if g.forgiven != g.owner.forgiven {
		g.starting, g.forgiven = 0, g.owner.forgiven
	}
	g.starting++
	g.owner.starting++
}

// awaitLocked queues the connection in a list. It waits, without the lock, until its turn is
// granted or the connection is closed, and reports whether it was granted.
func (g *gate) awaitLocked(list *[]*turnWaiter) (granted bool) {
	w := &turnWaiter{gate: g, granted: make(chan struct{})}
	*list = append(*list, w)
	g.turns.mu.Unlock()
	look := time.NewTicker(goneEvery)
	defer look.Stop()
	for waits := true; waits; {
		select {
		case <-w.granted:
			waits = false
		case <-g.ended:
			waits = false
		case <-look.C:
			if g.endIfGone != nil {
				g.endIfGone()
			}
		}
	}
	g.turns.mu.Lock()
	select {
	case <-w.granted:
		return true
	default:
	}
	if at := slices.Index(*list, w); at >= 0 {
		*list = slices.Delete(*list, at, at+1)
	}
	return false
}

// next removes and returns the first waiter of a list that is not closed; nil if there is none.
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

// leave ends the turn: the server wants the next bytes.
func (g *gate) leave() {
	g.turns.mu.Lock()
	defer g.turns.mu.Unlock()
	g.leaveLocked()
}

func (g *gate) leaveLocked() {
	l := g.lane
	if l == nil {
		return
	}
	g.lane = nil
	if w := next(&l.waiting); w != nil {
		w.gate.lane = l
		close(w.granted)
		return
	}
	l.reading--
}

// started records that the request of a stream was counted, or has ended.
func (g *gate) started() {
	g.turns.mu.Lock()
	defer g.turns.mu.Unlock()
	g.freeLocked()
	if g.startingLocked() == 0 {
		return
	}
	g.starting--
	g.owner.starting--
	g.owner.grantStarts(g.turns.starts)
}

// grantStarts lets waiting streams begin, up to the limit.
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

// close gives back the turn and the starting streams of the connection, and ends its waits.
func (g *gate) close() {
	g.turns.mu.Lock()
	defer g.turns.mu.Unlock()
	if !g.closed {
		g.closed = true
		close(g.ended)
		g.disownLocked()
	}
}

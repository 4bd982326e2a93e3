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
	// their requests are counted. Each is a goroutine that can run.
	startsEach = 8
	// firstFrames is how many frames of a connection go ahead of its owner's other connections, if
	// no more than one stream has begun in them. So a flood keeps nobody of the same address from
	// showing who they are: then the connection counts on its caller. To accept one more connection
	// costs the server more than so many frames do.
	firstFrames = 8
	// keptOwners is how many owners are kept before those are forgotten that have no connection.
	keptOwners = 1024
	// startTime is how long the next stream waits for the requests of those before it. A stream
	// whose header breaks the rules of HTTP/2 never becomes a request: after that time, all streams
	// that have begun are believed to be such.
	startTime = 100 * time.Millisecond
	// goneEvery is how often a connection that waits looks whether its peer has gone: nobody reads
	// its end meanwhile.
	goneEvery = time.Second
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

	mu sync.Mutex
	// owners are by Caller.ID. One without a connection stays as long as its frames count, so that
	// they count if it comes again. Guarded by mu.
	owners map[string]*turnOwner
	// sweepAt is how many of these are too many. Guarded by mu.
	sweepAt int
}

// turnOwner is one caller. It is guarded by the lock of turns.
type turnOwner struct {
	id          string
	connections int
	starting    int
	frames      framePace
	// turns are for the connections that are read, and beginning for those that begin: one at a
	// time, next to the others.
	turns, beginning lane
	// forgiven counts how often startTime was over, and starting began at 0 again.
	forgiven int
	// late does that. Nil: no stream waits.
	late *time.Timer
	// toStart are the waiters, in the order in which they came.
	toStart []*turnWaiter
}

// lane is how many connections are read at a time, and those that wait for that, in the order in
// which they came. It is guarded by the lock of turns.
type lane struct {
	reading int
	waiting []*turnWaiter
}

// turnWaiter is one connection that waits.
type turnWaiter struct {
	gate    *gate
	granted chan struct{} // closed when it is granted
}

func newTurns() *turns {
	processors := runtime.GOMAXPROCS(0)
	return &turns{reads: processors, starts: startsEach * processors, owners: make(map[string]*turnOwner), sweepAt: keptOwners}
}

// gate is the part of one connection. It is guarded by the lock of turns.
type gate struct {
	turns    *turns
	owner    *turnOwner // nil: none yet, or it is closed
	lane     *lane      // of owner, in which it has its turn; nil: it has none
	begun    int        // streams
	entered  int        // how often it was read
	starting int        // of owner's
	forgiven int        // of owner, when starting was last set
	spent    int        // frames, before the first request that was let through
	known    bool       // such a request has come
	ended    chan struct{}
	closed   bool
	// endIfGone ends the connection if its peer has gone. Nil: that is not known.
	endIfGone func()

	// These make frames free, and are not guarded: the requests that were let through and answered,
	// the bytes sent, and whether a request was let through.
	answered, sent atomic.Int64
	let            atomic.Bool
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
		g.turns.sweepLocked()
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
	if o.connections--; o.connections == 0 && o.frames.isUnused(time.Now()) {
		delete(g.turns.owners, o.id)
	}
	o.grantStarts(g.turns.starts)
}

// sweepLocked forgets owners who have no connection any more, if there are many owners.
func (t *turns) sweepLocked() {
	if len(t.owners) < t.sweepAt {
		return
	}
	now := time.Now()
	maps.DeleteFunc(t.owners, func(_ string, o *turnOwner) bool { return o.connections == 0 && o.frames.isUnused(now) })
	t.sweepAt = max(keptOwners, 2*len(t.owners))
}

// startingLocked is how many streams of the connection are starting.
func (g *gate) startingLocked() int {
	if g.owner == nil || g.forgiven != g.owner.forgiven {
		return 0
	}
	return g.starting
}

// enter waits for the turn of a connection of a caller, and for as many streams as begin in what
// was read. Light is how many frames begin in it that may bring nothing.
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
	} else if !g.awaitLocked(&l.waiting) { // its granter counts it
		return
	}
	if light == 0 {
		return
	}
	g.spent += light
	g.freeLocked()
	// It keeps its turn: other connections of the owner wait, too.
	if sleep := o.frames.take(light, time.Now()); sleep > 0 && !first {
		t.mu.Unlock()
		pause.For(sleep, g.ended, nil)
		t.mu.Lock()
	}
}

// isFirstLocked counts the streams in what was read, and reports whether that is among the first
// frames of the connection.
func (g *gate) isFirstLocked(begun, light int) bool {
	g.begun += begun
	g.entered++
	// a frame's header and its payload are read one after the other
	return g.begun <= 1 && g.spent+light <= firstFrames && g.entered <= 2*firstFrames
}

// freeLocked takes the frames of answered calls out of the count. The frames that begin a
// connection are free as soon as one call was let through: many agents can come from one address.
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
	if o.late == nil {
		o.late = time.AfterFunc(startTime, func() { t.forgive(o) })
	}
	g.awaitLocked(&o.toStart) // its granter counts it
}

// forgive believes of all streams of an owner that are starting that they never become requests.
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

// awaitLocked waits in a list, without the lock, until it is granted or the connection is closed.
// It reports whether it was granted.
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

// started says that the request of a stream is counted, or has ended.
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

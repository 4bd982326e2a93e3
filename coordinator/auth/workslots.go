package auth

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bursar/bursar/internal/admission"
)

const (
	// workTime is the longest time that a request keeps its slot: a body may come slowly.
	workTime = 50 * time.Millisecond
	// beginTime is the longest time that the first bytes of a request wait for a slot.
	beginTime = 500 * time.Millisecond
	// activeTime is how long a caller counts as active after a request.
	activeTime = 100 * time.Millisecond
)

// workSlots let a few requests of each caller be processed at a time: as many as there are
// processors, and half as many while other callers are active. The caller's other requests wait in
// order of arrival, before their bodies are read. Without it, the goroutines of all requests of one
// caller would be runnable, and a request of another caller would wait behind all of them.
//
// A request holds its slot from the end of its header until it waits for the loop or for another
// coordinator, until its answer is on its way, or for workTime. On an HTTP/1 connection it holds
// the slot from its first bytes until its answer is sent. If other callers are active, a request
// that has waited gets a slot again before requests that have just come: a commit answers many
// requests of one caller at once.
type workSlots struct {
	each int
	now  func() time.Time

	mu sync.Mutex
	// callers are the callers with a slot in use, by account; guarded by mu.
	callers map[string]*callerWork
	// last are the last requests of the two callers that came last; guarded by mu.
	last [2]seen
}

// seen is the time of a caller's last request.
type seen struct {
	caller string
	at     time.Time
}

// callerWork is the state of one caller. It is guarded by the lock of workSlots.
type callerWork struct {
	running int
	// The waiting requests; resuming goes first. Each channel is closed when its request gets a
	// slot.
	resuming, entering []chan struct{}
}

func (c *callerWork) waits() bool { return len(c.resuming)+len(c.entering) > 0 }

func newWorkSlots(each int) *workSlots {
	return &workSlots{each: max(1, each), now: time.Now, callers: make(map[string]*callerWork)}
}

// enter waits for a slot. If there is no error, leave must follow.
func (w *workSlots) enter(ctx context.Context, caller admission.Caller) error {
	if err := ctx.Err(); err != nil {
		return err //nolint:wrapcheck // as it is
	}
	w.mu.Lock()
	w.seeLocked(caller)
	c := w.ofLocked(caller)
	return w.await(ctx, caller, c, &c.entering)
}

// resume is enter for a request that had a slot before. It returns false, without a slot, if no
// other caller is active.
func (w *workSlots) resume(ctx context.Context, caller admission.Caller) (had bool) {
	if ctx.Err() != nil {
		return false
	}
	w.mu.Lock()
	if !w.crowdedLocked(caller) {
		w.mu.Unlock()
		return false
	}
	c := w.ofLocked(caller)
	return w.await(ctx, caller, c, &c.resuming) == nil
}

func (w *workSlots) ofLocked(caller admission.Caller) *callerWork {
	c := w.callers[caller.ID]
	if c == nil {
		c = new(callerWork)
		w.callers[caller.ID] = c
	}
	return c
}

// await waits for a slot, in a list of c. It unlocks w.mu.
func (w *workSlots) await(ctx context.Context, caller admission.Caller, c *callerWork, list *[]chan struct{}) error {
	if !c.waits() && c.running < w.limitLocked(caller) {
		c.running++
		w.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	*list = append(*list, mine)
	w.startLocked(caller, c)
	w.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(*list, mine); i >= 0 {
		*list = slices.Delete(*list, i, i+1)
		return ctx.Err()
	}
	w.leaveLocked(caller) // it got a slot in the meantime
	return ctx.Err()
}

// leave gives a slot back.
func (w *workSlots) leave(caller admission.Caller) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaveLocked(caller)
}

func (w *workSlots) leaveLocked(caller admission.Caller) {
	c := w.callers[caller.ID]
	c.running--
	if w.startLocked(caller, c); c.running == 0 {
		delete(w.callers, caller.ID)
	}
}

// startLocked gives free slots to waiting requests.
func (w *workSlots) startLocked(caller admission.Caller, c *callerWork) {
	if !c.waits() {
		return
	}
	for limit := w.limitLocked(caller); c.waits() && c.running < limit; c.running++ {
		list := &c.entering
		if len(c.resuming) > 0 {
			list = &c.resuming
		}
		close((*list)[0])
		(*list)[0] = nil
		*list = (*list)[1:]
	}
}

// seeLocked records a caller's request.
func (w *workSlots) seeLocked(caller admission.Caller) {
	if w.last[0].caller != caller.ID {
		w.last[1] = w.last[0]
	}
	w.last[0] = seen{caller.ID, w.now()}
}

// limitLocked returns how many requests of a caller may be processed now.
func (w *workSlots) limitLocked(caller admission.Caller) int {
	if w.crowdedLocked(caller) {
		return max(1, w.each/2)
	}
	return w.each
}

// crowdedLocked reports whether other callers are active.
func (w *workSlots) crowdedLocked(caller admission.Caller) bool {
	now := w.now()
	for _, other := range w.last {
		if other.caller != caller.ID && other.caller != "" && now.Sub(other.at) < activeTime {
			return true
		}
	}
	return false
}

// workSlot is the slot of one request. A nil slot belongs to a request that is not counted.
type workSlot struct {
	work   *workSlots
	caller admission.Caller
	kept   bool // the connection keeps it, and gives it back when the answer is sent

	mu     sync.Mutex
	held   bool        // guarded by mu
	parked bool        // guarded by mu; the request waits for something else, or has ended
	late   *time.Timer // guarded by mu; gives the slot back after workTime; nil: not started yet
}

type workSlotKey struct{}

// Begin implements admission.Work. It waits at most for beginTime, because the request may be of
// another caller than the earlier ones.
func (s *workSlot) Begin() {
	ctx, cancel := context.WithTimeout(context.Background(), beginTime)
	defer cancel()
	_ = s.enter(ctx) // the request waits once more when its caller is known
}

// End implements admission.Work.
func (s *workSlot) End() { s.release() }

// enter waits for the slot, unless the request holds it already.
func (s *workSlot) enter(ctx context.Context) error {
	if s == nil || s.holds() {
		return nil
	}
	if err := s.work.enter(ctx, s.caller); err != nil {
		return err
	}
	s.hold()
	return nil
}

func (s *workSlot) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// hold records that the request holds a slot, for workTime at most.
func (s *workSlot) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held { // two goroutines of a connection have entered at the same time
		s.work.leave(s.caller)
		return
	}
	s.held, s.parked = true, false
	if s.late == nil {
		s.late = time.AfterFunc(workTime, s.letGo)
		return
	}
	s.late.Reset(workTime)
}

// cameWhole takes a slot again if the body took so long that the request lost its slot.
func (s *workSlot) cameWhole(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	gone := !s.held && !s.parked
	s.mu.Unlock()
	if !gone {
		return nil
	}
	return s.enter(ctx)
}

func (s *workSlot) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.letGoLocked()
}

func (s *workSlot) letGoLocked() {
	if s.held {
		s.held = false
		s.work.leave(s.caller)
	}
}

// release gives the slot back until the request is resumed.
func (s *workSlot) release() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parked = true
	if s.late != nil {
		s.late.Stop()
	}
	s.letGoLocked()
}

// handled gives the slot back when the request's handler returns, unless the connection keeps it.
func (s *workSlot) handled() {
	if s != nil && !s.kept {
		s.release()
	}
}

// Parked says that a call waits for something other than a processor, or has no more work. It gives
// back the work slot.
func Parked(ctx context.Context) {
	if s, ok := ctx.Value(workSlotKey{}).(*workSlot); ok {
		s.release()
	}
}

// Resumed says that a parked call needs a processor again. If other callers are active, it waits
// for a work slot. Without this wait, all calls whose answers came with one commit would be
// runnable at once.
func Resumed(ctx context.Context) {
	if s, ok := ctx.Value(workSlotKey{}).(*workSlot); ok && s != nil && s.work.resume(ctx, s.caller) {
		s.hold()
	}
}

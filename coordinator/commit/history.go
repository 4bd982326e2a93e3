package commit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// recountAfter is the age of a count at which a new one begins. Until then the changes add up that
// the count does not see, such as a lost allocation that is adopted again.
const recountAfter = 24 * time.Hour

// HistoryBounds define how long ended allocations can be looked up, and their size per caller.
type HistoryBounds struct {
	Retention   time.Duration
	CallerBytes int64
	// PruneEvery is the time between two searches for rows beyond the bounds. PruneStep is how many
	// allocations one step deletes.
	PruneEvery time.Duration
	PruneStep  int
}

// history keeps ended allocations within two bounds: all by age, and those of each caller by size.
// Only the leader does so. It counts the history once, beginning with the oldest row. After that it
// counts new ends and its own deletions.
type history struct {
	loop   *Loop
	config HistoryBounds
	// remember is how long rows are kept whatever their size, because they answer repeated
	// requests.
	remember time.Duration
	// countAfter is the age below which rows are not counted yet: until then, a row may become
	// durable after another one with a later end.
	countAfter time.Duration

	// Owned by run:
	epoch   uint64         // the leadership in which the fields below were counted; 0: none
	began   ledger.Instant // of the count; 0: begin a new count
	counted store.Position // rows up to here are counted
	callers callerSizes
	total   HistorySize

	size atomic.Pointer[HistorySize] // nil: not counted yet
	// full has the refused callers, with their bytes.
	full atomic.Pointer[map[string]int64]
}

// HistorySize is the size of the history.
type HistorySize struct{ Rows, Bytes int64 }

func (s *HistorySize) add(rows, bytes int64) { s.Rows, s.Bytes = s.Rows+rows, s.Bytes+bytes }

// HistoryFullError refuses a request of a caller whose recently ended allocations have reached its
// bound.
type HistoryFullError struct {
	Caller      string
	Bytes, Most int64
	Remember    time.Duration
}

func (e *HistoryFullError) Error() string {
	return fmt.Sprintf("caller %q: its allocations that ended within %s take %d bytes of the history: want at most %d (history.callerBytes): try again later, and less often",
		e.Caller, e.Remember, e.Bytes, e.Most)
}

func newHistory(loop *Loop) *history {
	// The commit of a row may wait for the previous one, and each may take CommitTimeout.
	return &history{loop: loop, config: loop.History, remember: loop.Remember, countAfter: 2 * loop.CommitTimeout}
}

// admit refuses a new request of a caller whose history is full.
func (h *history) admit(caller string) error {
	full := h.full.Load()
	if full == nil {
		return nil
	}
	if bytes, found := (*full)[caller]; found {
		return &HistoryFullError{Caller: caller, Bytes: bytes, Most: h.config.CallerBytes, Remember: h.remember}
	}
	return nil
}

// warnings returns the number of callers whose history is full.
func (h *history) warnings() []string {
	if full := h.full.Load(); full != nil && len(*full) > 0 {
		return []string{fmt.Sprintf("callers that are refused because their history is full (history.callerBytes): %d", len(*full))}
	}
	return nil
}

// run prunes until ctx ends.
func (h *history) run(ctx context.Context) {
	var indexing sync.WaitGroup
	defer indexing.Wait()
	indexing.Go(func() { (&historyIndex{history: h}).run(ctx) })
	tick := time.NewTicker(h.config.PruneEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := h.round(ctx); err != nil && ctx.Err() == nil {
			h.loop.Metrics.pruneFailed.Inc()
			h.loop.Log.Warn("cannot keep the history within its bounds", "error", err)
			h.began = 0 // it is not known which rows were deleted
		}
	}
}

// round does the work that is due.
func (h *history) round(ctx context.Context) error {
	epoch := h.loop.lastEpoch.Load()
	if !h.loop.leads.Load() {
		epoch = 0
	}
	if epoch != h.epoch {
		h.epoch, h.began = epoch, 0
		h.size.Store(nil)
		h.full.Store(nil)
	}
	if epoch == 0 {
		return nil
	}
	now := h.loop.Now()
	if h.began == 0 || now.Sub(h.began) >= recountAfter {
		h.began, h.counted, h.total, h.callers = now, store.Position{}, HistorySize{}, callerSizes{}
	}
	if err := h.deleteOld(ctx, h.loop.ago(h.loop.Clock.Earliest(), h.config.Retention)); err != nil {
		return err
	}
	if done, err := h.count(ctx, now.Add(-h.countAfter)); err != nil || !done {
		return err
	}
	err := h.trimCallers(ctx, h.loop.ago(now, h.remember))
	size := h.total
	h.size.Store(&size)
	return err
}

// isCurrent reports whether this leadership still lasts.
func (h *history) isCurrent(ctx context.Context) bool {
	return ctx.Err() == nil && h.loop.leads.Load() && h.loop.lastEpoch.Load() == h.epoch
}

// deleteOld deletes the rows that ended before a time, the oldest first, in steps.
func (h *history) deleteOld(ctx context.Context, before ledger.Instant) error {
	for h.isCurrent(ctx) {
		ends, err := h.loop.Store.Ends(ctx, store.Position{}, h.config.PruneStep)
		if err != nil {
			return err //nolint:wrapcheck // says it
		}
		due := len(ends)
		for due > 0 && ends[due-1].Ended >= before {
			due--
		}
		if err := h.deleteRows(ctx, ends[:due]); err != nil || due < h.config.PruneStep {
			return err
		}
	}
	return nil
}

// deleteRows deletes rows, and subtracts the counted ones.
func (h *history) deleteRows(ctx context.Context, ends []store.End) error {
	if len(ends) == 0 {
		return nil
	}
	places := make([]store.Position, len(ends))
	for i := range ends {
		places[i] = ends[i].Position
	}
	n, err := h.loop.Store.Delete(ctx, places)
	h.loop.Metrics.pruned.Add(float64(n))
	if err != nil {
		return err //nolint:wrapcheck // says it
	}
	for i := range ends {
		if e := &ends[i]; e.Compare(h.counted) <= 0 {
			h.callers.subtract(e.Caller, e.Bytes)
			h.total.add(-1, -e.Bytes)
		}
	}
	return nil
}

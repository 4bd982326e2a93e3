package commit

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/pause"
)

const (
	// countStep is how many rows are counted at a time.
	countStep = 5000
	// leastPause is the shortest pause after a step, and pauseShare the ratio of the pause to the
	// step's time. So reading a history of any length takes at most a fifth of a core and of a
	// disk.
	leastPause = 20 * time.Millisecond
	pauseShare = 4
)

// pauseAfter pauses after a step that began at a time. It returns false if ctx has ended.
func pauseAfter(ctx context.Context, began time.Time) bool {
	return pause.For(max(leastPause, pauseShare*time.Since(began)), ctx.Done(), nil)
}

// count continues the count up to a time, and reports whether it has reached that time.
func (h *history) count(ctx context.Context, until ledger.Instant) (done bool, err error) {
	for h.isCurrent(ctx) {
		began := time.Now()
		ends, err := h.loop.Store.Ends(ctx, h.counted, countStep)
		if err != nil {
			return false, err //nolint:wrapcheck // says it
		}
		for i := range ends {
			e := &ends[i]
			if e.Ended >= until {
				return true, nil
			}
			h.callers.add(e.Caller, e.Bytes, h.counted)
			h.total.add(1, e.Bytes)
			h.counted = e.Position
		}
		if len(ends) < countStep {
			return true, nil
		}
		if !pauseAfter(ctx, began) {
			return false, nil
		}
	}
	return false, nil
}

// trimCallers deletes the oldest rows of callers above their bound, but none that ended at or after
// remembered, because these answer repeated requests. A caller whose remembered rows alone exceed
// the bound is refused. Rows of hosts exist only because agents reported them. They answer no
// repeated request, except for an allocation that such an agent brought back.
func (h *history) trimCallers(ctx context.Context, remembered ledger.Instant) error {
	callers, hosts := make(map[string]*callerSize), make(map[string]*callerSize)
	for name, c := range h.callers.sizes {
		switch {
		case c.bytes <= h.config.CallerBytes:
		case strings.HasPrefix(name, store.OfHost):
			hosts[name] = c
		default:
			callers[name] = c
		}
	}
	if done, err := h.trimAll(ctx, hosts, ledger.MaxInstant); err != nil || !done {
		return err
	}
	if done, err := h.trimAll(ctx, callers, remembered); err != nil || !done {
		return err
	}
	full := make(map[string]int64, len(callers))
	for name, c := range callers {
		full[name] = c.bytes
	}
	h.full.Store(&full)
	return nil
}

// trimAll deletes the oldest rows, up to a time, of the callers in over, and removes callers that
// are below their bound again. It reports whether it came to the end.
func (h *history) trimAll(ctx context.Context, over map[string]*callerSize, remembered ledger.Instant) (done bool, err error) {
	at := h.counted
	for _, c := range over {
		if c.oldest.Compare(at) < 0 {
			at = c.oldest
		}
	}
	for more := true; more && len(over) > 0; {
		if !h.isCurrent(ctx) {
			return false, nil
		}
		began := time.Now()
		if at, more, err = h.trim(ctx, over, at, remembered); err != nil {
			return false, err
		}
		if more && !pauseAfter(ctx, began) {
			return false, nil
		}
	}
	return true, nil
}

// trim reads the next rows and deletes those of callers above their bound. It removes a caller from
// over once it is below its bound. It returns the position that it reached, and whether there may
// be more rows.
func (h *history) trim(ctx context.Context, over map[string]*callerSize, at store.Position, remembered ledger.Instant) (store.Position, bool, error) {
	ends, err := h.loop.Store.Ends(ctx, at, countStep)
	if err != nil {
		return at, false, err //nolint:wrapcheck // says it
	}
	more := len(ends) == countStep
	var surplus []store.End
	taken := make(map[string]int64)
	for i := range ends {
		e := &ends[i]
		if e.Ended >= remembered || e.Compare(h.counted) > 0 {
			more = false
			break
		}
		at = e.Position
		if c := over[e.Caller]; c != nil && c.bytes-taken[e.Caller] > h.config.CallerBytes {
			taken[e.Caller] += e.Bytes
			surplus = append(surplus, *e)
		}
	}
	for step := range slices.Chunk(surplus, h.config.PruneStep) {
		if err := h.deleteRows(ctx, step); err != nil {
			return at, false, err
		}
	}
	for name, c := range over {
		if c.bytes <= h.config.CallerBytes {
			delete(over, name)
		} else if c.oldest.Compare(at) < 0 {
			c.oldest = at
		}
	}
	return at, more, nil
}

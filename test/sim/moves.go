package sim

import "github.com/bursar/bursar/coordinator/ledger"

// moves draws what the limit of a queue may become, and what its cluster holds back there. It is
// nothing in a world without limits of external parts, so that such a world is as it was without
// these; and nothing is held back when a world comes to rest.
func (w *World) moves(r *ledger.QueueReport) *ledger.QueueDetails {
	if w.limits == nil {
		return nil
	}
	var d ledger.QueueDetails
	for dimension, n := range r.Limit.All() {
		if w.limits.IntN(2) == 0 {
			d.MayGrow = d.MayGrow.With(dimension, n+n*w.limits.Int64N(4)/2)
		}
	}
	if w.limits.IntN(8) == 0 && !w.calm {
		d.HeldBack = ledger.HeldBack{Applications: 1 + w.limits.Int32N(3), Reason: "no machine has that much in one piece"}
	}
	return &d
}

// awaitsStarts reports whether nothing is granted in queues that hold applications back.
func (w *World) awaitsStarts() bool { return w.cfg.Seed%3 > 0 }

// holdsBack reports whether nothing may be granted in a queue because of what it holds back.
func (w *World) holdsBack(q *ledger.QueueReport) bool {
	return w.limits != nil && w.awaitsStarts() && q.Details != nil && q.Details.HeldBack.Applications > 0
}

// growsTo is what the limit of a queue may become.
func growsTo(q *ledger.QueueReport, dimension string) int64 {
	if q.Details == nil {
		return 0
	}
	n, _ := q.Details.MayGrow.Get(dimension)
	return n
}

// checkMoves holds that what a refusal says of queues that may grow, or hold applications back, is
// by the last report.
func (c *coord) checkMoves(refusal *ledger.InsufficientError) {
	for i := range refusal.Shortfalls {
		f := &refusal.Shortfalls[i]
		if f.Note != ledger.NoteMayGrow && f.Note != ledger.NoteHeldBack {
			continue
		}
		s := c.standing[clusterOf(f)]
		if s == nil {
			c.w.failf(7, "refused for %s, of which nothing is known", f)
			continue
		}
		q := s.queues[queueKey{f.Account.Labels.Value("path"), f.Account.Labels.Value("partition")}]
		switch {
		case q == nil:
			c.w.failf(7, "refused for %s, which is not there", f)
		case f.Note == ledger.NoteHeldBack:
			c.w.tally.HeldBackRefusals++
			if !c.w.holdsBack(q) {
				c.w.failf(7, "refused for %s, which holds nothing back", f)
			}
		default:
			c.w.tally.GrowingRefusals++
			if most, _ := q.Limit.Get(f.Dimension); f.Requested <= most || f.Requested > growsTo(q, f.Dimension) || f.Largest != growsTo(q, f.Dimension) {
				c.w.failf(7, "refused for %s: the limit is %d, and may become %d", f, most, growsTo(q, f.Dimension))
			}
		}
	}
}

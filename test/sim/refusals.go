package sim

import (
	"errors"
	"slices"
	"strings"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
)

// checkRefusal holds that what a refusal says of queues is true, and that it says what is missing.
func (c *coord) checkRefusal(refused error) {
	insufficient, ok := errors.AsType[*ledger.InsufficientError](refused)
	if !ok {
		return
	}
	if insufficient.Reason == ledger.ReasonNever {
		c.checkNever(insufficient)
		return
	}
	c.checkReasons(insufficient)
	c.checkUntimely(insufficient)
	c.checkMoves(insufficient)
	elsewhere := slices.ContainsFunc(insufficient.Shortfalls, func(f ledger.Shortfall) bool { return f.Account.Kind != ledger.HostAccount })
	if hosts := insufficient.Filters; hosts != nil && hosts.Fit > 0 && !elsewhere {
		c.w.failf(7, "refused for want of a host, and one would take it: %v", insufficient)
	}
}

// checkUntimely holds that no request is refused only because a new leader has not had the time to
// read clusters: it is too early to say no.
func (c *coord) checkUntimely(refusal *ledger.InsufficientError) {
	unread := len(refusal.Shortfalls) > 0
	for i := range refusal.Shortfalls {
		f := &refusal.Shortfalls[i]
		unread = unread && f.Note == ledger.NoteUnknown && f.Account.Kind == ledger.QueueAccount && c.awaits(clusterOf(f))
		if f.Account.Kind == ledger.QueueAccount && f.Note != ledger.NoteUnknown && refusal.Returning {
			c.w.failf(7, "refused for %s, and told to try again", f)
		}
	}
	unread = unread && refusal.Filters == nil // else no host has room either
	if unread {
		c.w.tally.Untimely++
	}
	if unread && !refusal.Returning {
		c.w.failf(7, "refused for want of clusters that have not been read yet: %v", refusal)
	}
}

// awaits reports whether a cluster was configured during or before this leadership, and is still
// to be read.
func (c *coord) awaits(name ledger.ClusterName) bool {
	soon := c.ledgerTime() < c.ledAt.Add(2*times().Interval)
	configured := slices.ContainsFunc(c.records, func(r ledger.ProviderRecord) bool { return r.ClusterName == name })
	return soon && configured && !c.reported[name]
}

// clusterOf is the cluster of a queue that falls short.
func clusterOf(f *ledger.Shortfall) ledger.ClusterName {
	return ledger.ClusterName{Kind: f.Account.Labels.Value("kind"), Cluster: f.Account.Labels.Value(label.Cluster)}
}

// checkNever holds that a request is refused for good only for a known limit that is smaller.
func (c *coord) checkNever(refusal *ledger.InsufficientError) {
	if refusal.Filters != nil {
		c.w.failf(7, "refused for good for want of a host, which may come: %v", refusal)
	}
	for i := range refusal.Shortfalls {
		f := &refusal.Shortfalls[i]
		if f.Account.Kind != ledger.QueueAccount || f.Note != ledger.NoteNever {
			continue
		}
		s := c.standing[clusterOf(f)]
		if s == nil || s.report.Untrusted != "" || c.ledgerTime() >= s.report.Asked.Add(s.report.GoodFor) {
			c.w.failf(7, "refused for good for %s, of which nothing is known", f.Account)
			continue
		}
		q := s.queues[queueKey{f.Account.Labels.Value("path"), f.Account.Labels.Value("partition")}]
		if q == nil {
			c.w.failf(7, "refused for good for %s, which is not there", f.Account)
			continue
		}
		if most, _ := q.Limit.Get(f.Dimension); f.Requested <= max(most, growsTo(q, f.Dimension)) {
			c.w.failf(7, "refused for good for %s: %s %d of %d", f.Account, f.Dimension, f.Requested, most)
		}
	}
}

// isHeldOn reports whether a call for a request waits, and has not been sent away meanwhile.
func (c *coord) isHeldOn(request string) bool {
	return slices.ContainsFunc(c.line[request], func(ask *core.Request) bool { return ask.Err == nil })
}

// checkPatience holds that no request waits for a queue although it fits: whatever makes room
// wakes those who wait for it.
func (w *World) checkPatience(c *coord) {
	l := c.core.Ledger()
	if l.Behind() {
		return // the batch is full of what came due by itself: the next one goes on
	}
	var waiting []ledger.Allocation
	l.Allocations(0, func(a *ledger.Allocation) bool {
		// Its caller may have been answered already.
		vetoed := strings.HasPrefix(a.Reason, ledger.ReasonVetoed)
		if a.State == ledger.Waiting && len(a.Entitled.External) > 0 && c.isHeldOn(a.Caller+"/"+a.RequestID) && !vetoed {
			waiting = append(waiting, *a)
		}
		return true
	})
	for i := range waiting {
		x, err := l.ExplainID(c.ledgerTime(), waiting[i].ID, identity.Actor{})
		if err != nil {
			continue // its time has come just now
		}
		if x.Verdict == ledger.Fits && x.Allocation != nil && x.Allocation.State == ledger.Waiting {
			w.failf(7, "%s: %s waits and could go ahead", c.name, waiting[i].ID)
		}
	}
}

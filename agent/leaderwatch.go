package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// leaderWatch has the agent report to a new leader soon after it is named: a leader grants nothing
// on a host that it has not heard of.
func (a *Agent) leaderWatch(ctx context.Context) error {
	if a.deps.Finder == nil {
		return nil
	}
	leader := ""
	for {
		known, changed := a.deps.Finder.Coordinators()
		named := ""
		for _, coordinator := range known {
			if coordinator.Leads {
				named = coordinator.URL
			}
		}
		if named != leader && named != "" && a.naming.named(a.awaited()) {
			a.newLeader.Store(true)
			a.syncDue.bringForward(time.Now().Add(a.spread()))
		}
		leader = named
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// naming tells whether a leader that is named has answered already. Which of the two comes first is
// chance. Any goroutine may use it.
type naming struct {
	mu    sync.Mutex
	waits bool // a leader was named that has not answered yet; guarded by mu
	ahead bool // a leader has answered that was not named yet; guarded by mu
}

// named says that another leader was named, and whether the host is awaited by the one that has
// answered last. It reports whether the host is to report to it now: it is not if these two are the
// same.
func (n *naming) named(awaited bool) (report bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	report = !n.ahead || !awaited
	n.waits, n.ahead = report, false
	return report
}

// hasAnswered reports whether the leader that was named last has answered.
func (n *naming) hasAnswered() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.waits
}

// answered says that a leader has answered that had not before.
func (n *naming) answered() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waits, n.ahead = false, !n.waits
}

// heardAgain brings the next Sync forward when a coordinator answers a caller and the last Syncs
// have failed.
func (a *Agent) heardAgain() {
	if a.unsynced.CompareAndSwap(true, false) {
		a.syncDue.bringForward(time.Now().Add(syncRetryFirst))
	}
}

// reportAfter is how long a request waits for a coordinator before the agent sends a Sync because
// of it, and reportGap how long after the last Sync that is at least. A leader that has just begun
// waits for the host's Sync, and the agent may not know yet that it leads. If an attempt of the
// request was made before, that is likely, and it reports within callersSpread.
const (
	reportAfter = 300 * time.Millisecond
	reportGap   = time.Second
)

// whileWaiting returns the call of a request, which sends a Sync if the answer takes long. A
// request that waits does so with the agent's stream. If the coordinator knows no such stream, the
// request's own call lasts; if an attempt of that breaks, the next goes as other calls do: a proxy
// on the way may know no HTTP/2.
func (a *Agent) whileWaiting(request *bursarv1.AllocateRequest) func(context.Context, *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	waited := time.Now().Add(convert.Wait(request))
	shares := convert.Wait(request) > 0
	waits := shares
	after := reportAfter
	return func(ctx context.Context, request *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
		late := time.AfterFunc(after, func() {
			a.syncDue.noLaterThan(later(time.Now(), a.syncedAt.last().Add(reportGap)))
		})
		defer late.Stop()
		after = callersSpread // of the next attempt, if there is one
		convert.WaitAtMost(request, time.Until(waited))
		if waits {
			response, err := a.waits.allocate(ctx, request)
			if !errors.Is(err, errNoWaitStream) {
				return response, err
			}
		}
		if !shares {
			return a.deps.Allocations.Allocate(inNameOf(ctx), request)
		}
		response, err := a.deps.Waiting.Allocate(inNameOf(ctx), request)
		shares = err == nil || connect.IsWireError(err)
		return response, err
	}
}

// unknownTo reports whether a request was refused because the coordinator does not know this host,
// or not all that runs on it.
func (a *Agent) unknownTo(err error) bool {
	if connect.CodeOf(err) == connect.CodeNotFound {
		return true // the host, by a coordinator of an earlier version
	}
	short, _ := insufficiency(err)
	for _, s := range short.GetShortfalls() {
		ofHost := s.GetAccount().GetKind() == bursarv1.AccountKind_ACCOUNT_KIND_HOST
		if ofHost && notYetKnown(s) {
			return true
		}
	}
	return false
}

// notYetKnown reports whether a host falls short because the coordinator has not heard of it, or
// of all that runs on it.
func notYetKnown(s *bursarv1.Shortfall) bool {
	note := convert.NoteOf(s)
	return note == bursarv1.ShortfallNote_SHORTFALL_NOTE_HEALTH || note == bursarv1.ShortfallNote_SHORTFALL_NOTE_UNKNOWN || convert.HostIsAbsent(s)
}

// agree sends Syncs until the coordinator that leads knows the host and all that runs on it. It
// returns false if ctx ended first.
func (a *Agent) agree(ctx context.Context) bool {
	a.mu.Lock()
	answered := a.answered
	a.mu.Unlock()
	for {
		a.syncDue.noLaterThan(time.Now())
		select {
		case <-answered:
		case <-ctx.Done():
			return false
		}
		agreed := false
		a.locked(func(t *tracker.Tracker) { agreed, answered = t.Agreed(), a.answered })
		if agreed {
			return true
		}
	}
}

package report

import (
	"context"
	"sync"
	"time"
)

// WatchLeader has the agent report to a new leader soon after it is named: a leader grants nothing
// on a host that it has not heard of.
func (r *Reporter) WatchLeader(ctx context.Context) error {
	if r.finder == nil {
		return nil
	}
	leader := ""
	for {
		known, changed := r.finder.Coordinators()
		named := ""
		for _, coordinator := range known {
			if coordinator.Leads {
				named = coordinator.URL
			}
		}
		if named != leader && named != "" && r.naming.named(r.awaited()) {
			r.newLeader.Store(true)
			r.syncDue.BringForward(time.Now().Add(r.spread()))
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

// HeardAgain brings the next Sync forward when a coordinator answers a caller and the last Syncs
// have failed.
func (r *Reporter) HeardAgain() {
	if r.unsynced.CompareAndSwap(true, false) {
		r.syncDue.BringForward(time.Now().Add(syncRetryFirst))
	}
}

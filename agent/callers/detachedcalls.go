package callers

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bursar/bursar/agent/socket"
)

// detachedCalls are calls that go on though their callers have gone. Each holds two connections, so
// their number is bounded. If there are too many, the oldest one of the user who has most of them
// ends.
type detachedCalls struct {
	mu    sync.Mutex
	count int
	users map[string][]*detachedCall // the oldest first, by the id that a caller counts on
}

type detachedCall struct{ end context.CancelFunc }

const (
	mostDetached       = 256
	mostDetachedOfUser = 64
	// detachedFor bounds for how long a call goes on without its caller.
	detachedFor = 15 * time.Second
)

// detach returns the context of a call that goes on when its caller has gone: for the patience, and
// no longer than detachedFor. A call without a deadline ends after the patience in any case.
func (d *detachedCalls) detach(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	deadline := time.Now()
	if callers, has := ctx.Deadline(); has {
		deadline = callers
	}
	own, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(patience))
	stop := context.AfterFunc(ctx, func() {
		call, user := &detachedCall{cancel}, socket.CallerOf(ctx).Counted().ID
		d.add(user, call)
		after := time.NewTimer(min(patience, detachedFor))
		select {
		case <-own.Done():
		case <-after.C:
			cancel()
		}
		after.Stop()
		d.remove(user, call)
	})
	return own, func() {
		stop()
		cancel()
	}
}

func (d *detachedCalls) add(user string, call *detachedCall) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users == nil {
		d.users = make(map[string][]*detachedCall)
	}
	d.users[user] = append(d.users[user], call)
	most := user
	if d.count++; d.count > mostDetached {
		for other, calls := range d.users {
			if len(calls) > len(d.users[most]) {
				most = other
			}
		}
	} else if len(d.users[user]) <= mostDetachedOfUser {
		return
	}
	d.users[most][0].end()
	d.removeLocked(most, d.users[most][0])
}

func (d *detachedCalls) remove(user string, call *detachedCall) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.removeLocked(user, call)
}

// removeLocked stops counting a call, if it is counted.
func (d *detachedCalls) removeLocked(user string, call *detachedCall) {
	at := slices.Index(d.users[user], call)
	if at < 0 {
		return
	}
	d.count--
	if d.users[user] = slices.Delete(d.users[user], at, at+1); len(d.users[user]) == 0 {
		delete(d.users, user)
	}
}

package agent

import (
	"context"
	"sync"
	"time"

	"github.com/bursar/bursar/agent/socket"
)

// leftCalls are calls that go on though their callers have gone. Each holds two connections, so
// their number is bounded, in all and for each user.
type leftCalls struct {
	mu  sync.Mutex
	all int
	of  map[string]int // by what their callers count on
}

const (
	mostLeft   = 64
	mostLeftOf = 8 // of one user
)

// context is that of a call which goes on for the given patience when its caller has gone, if there
// are not too many of these. A call without a deadline ends after the patience in any case.
func (l *leftCalls) context(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	deadline := time.Now()
	if callers, has := ctx.Deadline(); has {
		deadline = callers
	}
	own, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(patience))
	stop := context.AfterFunc(ctx, func() {
		defer cancel()
		user := socket.CallerOf(ctx).Counted().ID
		if !l.enter(user) {
			return
		}
		defer l.leave(user)
		after := time.NewTimer(patience)
		defer after.Stop()
		select {
		case <-own.Done():
		case <-after.C:
		}
	})
	return own, func() {
		stop()
		cancel()
	}
}

func (l *leftCalls) enter(user string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= mostLeft || l.of[user] >= mostLeftOf {
		return false
	}
	if l.of == nil {
		l.of = make(map[string]int)
	}
	l.all++
	l.of[user]++
	return true
}

func (l *leftCalls) leave(user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.of[user]--; l.of[user] == 0 {
		delete(l.of, user)
	}
}

package launches

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/orders"
	"github.com/bursar/bursar/internal/pause"
)

const (
	// orderAgain is the period at which an unanswered order is sent again.
	orderAgain = 10 * time.Second
	// attachPatience is how long the agent of a granted host has to attach. After a change of
	// leader, or an outage of a coordinator, agents attach within seconds.
	attachPatience = 15 * time.Second
	// secretsPatience is how long a caller has to bring the secrets of a launch again, for example
	// after a change of leader. A reservation usually lasts for two minutes.
	secretsPatience = 30 * time.Second
	// readsAtOnce bounds the rows of launches in memory, 64 KiB each, next to those in the queues
	// of agents.
	readsAtOnce = 16
	// again is the pause before the launcher follows the changes anew.
	again = 200 * time.Millisecond
)

// Rows reads the rows of launches. Every store.Store implements it.
type Rows interface {
	Launch(ctx context.Context, id ledger.ID) ([]byte, error)
}

// Launcher sends the orders of one coordinator.
type Launcher struct {
	Loop *commit.Loop
	Rows Rows
	Hub  *orders.Hub
	Log  *slog.Logger

	needed  chan struct{} // closed by the first agent that allows launches, or the first request for an engine
	isFirst sync.Once

	reads chan struct{} // has an element for each row that is being read or sent

	mu      sync.Mutex
	pending map[ledger.ID]*try   // guarded by mu; grants whose engines have not begun
	secrets map[requestKey]*held // guarded by mu; the secrets of waiting callers
}

// requestKey identifies a caller's request. All tries of the request share it.
type requestKey struct{ caller, id string }

// try is one grant of a launch.
type try struct {
	allocation ledger.Allocation
	cancel     context.CancelFunc
	attached   chan struct{} // has one element after the host's agent has attached
	secrets    chan struct{} // has one element after the caller has brought secrets
}

// New makes a launcher. The hub notifies it when agents attach.
func New(loop *commit.Loop, rows Rows, hub *orders.Hub, log *slog.Logger) *Launcher {
	l := &Launcher{Loop: loop, Rows: rows, Hub: hub, Log: log, needed: make(chan struct{}), reads: make(chan struct{}, readsAtOnce), pending: make(map[ledger.ID]*try), secrets: make(map[requestKey]*held)}
	hub.Attached = l.attached
	return l
}

// Need reports that there are hosts that allow launches, or requests for them. Until then Run
// follows no changes, so a cluster without launches has no costs.
func (l *Launcher) Need() { l.isFirst.Do(func() { close(l.needed) }) }

// Run sends orders until ctx ends, whenever this coordinator leads. It ends the streams of agents
// at the end of each leadership.
func (l *Launcher) Run(ctx context.Context) {
	l.cutUntilNeeded(ctx)
	var tries sync.WaitGroup
	defer tries.Wait()
	for ctx.Err() == nil {
		if l.Loop.Leading() {
			err := l.follow(ctx, &tries)
			l.clear()
			if !errors.Is(err, commit.ErrFellBehind) { // else it leads on
				l.Hub.Cut(fmt.Errorf("this coordinator does not lead any more: %w", err))
			}
		}
		pause.For(again, ctx.Done(), nil)
	}
}

// cutUntilNeeded ends the streams of agents after each leadership, until Need is called.
func (l *Launcher) cutUntilNeeded(ctx context.Context) {
	leading, epoch := l.Loop.Leading(), l.Loop.Epoch()
	for pause.For(again, ctx.Done(), l.needed) {
		now, its := l.Loop.Leading(), l.Loop.Epoch()
		if leading && (!now || its != epoch) {
			l.Hub.Cut(errors.New("this coordinator does not lead any more"))
		}
		leading, epoch = now, its
	}
}

// follow sends orders until the leadership or ctx ends.
func (l *Launcher) follow(ctx context.Context, tries *sync.WaitGroup) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return l.Loop.FollowUncounted(ctx, func() error { return l.begin(ctx, tries) }, func(batch []*commit.Event) error {
		for _, e := range batch {
			if a := e.Allocation; a != nil && a.Launch() != nil {
				l.changed(ctx, tries, a)
			}
		}
		return nil
	})
}

// begin finds the grants of earlier leaderships.
func (l *Launcher) begin(ctx context.Context, tries *sync.WaitGroup) error {
	for after, more := ledger.ID(0), true; more; {
		step, err := commit.Scan(ctx, l.Loop, after, 1000, commit.AllocationsWhere(isDue))
		if err != nil {
			return err //nolint:wrapcheck // says all
		}
		for i := range step.Found {
			l.changed(ctx, tries, &step.Found[i])
		}
		after, more = step.Place, step.More
	}
	return nil
}

// isDue reports whether the engine of a launch still has to be launched.
func isDue(a *ledger.Allocation) bool {
	launch := a.Launch()
	return launch != nil && launch.Row != 0 && a.State == ledger.Reserved && !a.Stopping
}

// changed starts or ends the try of an allocation with a launch after a change.
func (l *Launcher) changed(ctx context.Context, tries *sync.WaitGroup, a *ledger.Allocation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.pending[a.ID]
	if before != nil && isDue(a) && before.allocation.GrantRevision == a.GrantRevision {
		return
	}
	if before != nil {
		before.cancel()
		delete(l.pending, a.ID)
	}
	if !isDue(a) {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	t := &try{allocation: *a, cancel: cancel, attached: make(chan struct{}, 1), secrets: make(chan struct{}, 1)}
	l.pending[a.ID] = t
	tries.Go(func() { l.launch(ctx, t) })
}

// clear cancels all tries after the leadership has ended.
func (l *Launcher) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.pending {
		t.cancel()
	}
	clear(l.pending)
}

// attached sends the orders of a host again.
func (l *Launcher) attached(host string, launches bool) {
	if launches {
		l.Need()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.pending {
		if t.allocation.HostID == host {
			signal(t.attached)
		}
	}
}

func signal(news chan struct{}) {
	select {
	case news <- struct{}{}:
	default: // it is known already
	}
}

// fail reports to the ledger that a try has begun no engine, as far as this coordinator knows.
func (l *Launcher) fail(ctx context.Context, a *ledger.Allocation, reason string) {
	l.Log.Warn("an engine could not be launched", "allocation_id", a.ID, "host_id", a.HostID, "reason", reason)
	err := l.Failed(ctx, ledger.LaunchFailed{HostID: a.HostID, ID: a.ID, GrantRevision: a.GrantRevision, Reason: reason})
	if err != nil && ctx.Err() == nil {
		l.Log.Warn("a launch that failed could not be ended: it ends with its reservation", "allocation_id", a.ID, "error", err)
	}
}

// Started confirms an engine whose process waits to begin.
func (l *Launcher) Started(ctx context.Context, c ledger.LaunchStarted) (ledger.Allocation, error) {
	return commit.Decide(ctx, l.Loop, func(book *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return book.StartLaunch(now, c)
	})
}

// Begun records in the ledger that an engine has begun.
func (l *Launcher) Begun(ctx context.Context, c ledger.LaunchBegun) error {
	_, err := commit.Decide(ctx, l.Loop, func(book *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return book.BeginLaunch(now, c)
	})
	return err //nolint:wrapcheck // says all
}

// Failed records in the ledger that a try has failed without an engine.
func (l *Launcher) Failed(ctx context.Context, c ledger.LaunchFailed) error {
	_, err := commit.Decide(ctx, l.Loop, func(book *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return book.FailLaunch(now, c)
	})
	return err //nolint:wrapcheck // says all
}

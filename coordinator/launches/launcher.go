package launches

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/orders"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/pause"
	storev1 "github.com/bursar/bursar/proto/bursar/store/v1"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// orderAgain is how often an order is sent that was not answered.
	orderAgain = 10 * time.Second
	// attachPatience is how long the agent of a host that got a grant has to be attached. After a
	// change of leader agents attach within seconds.
	attachPatience = 5 * time.Second
	// secretsPatience is how long a caller has to bring the secrets of a launch again, such as
	// after a change of leader. A reservation usually lasts for two minutes.
	secretsPatience = 30 * time.Second
	// again is the pause before the changes are followed anew.
	again = 200 * time.Millisecond
)

// Rows are the part of a store that has the launches' rows; every store.Store has it.
type Rows interface {
	Launch(ctx context.Context, id ledger.ID) ([]byte, error)
}

// Launcher sends the orders of one coordinator.
type Launcher struct {
	Loop *commit.Loop
	Rows Rows
	Hub  *orders.Hub
	Log  *slog.Logger

	needed  chan struct{} // closed by the first agent that attaches, or the first request for an engine
	isFirst sync.Once

	mu      sync.Mutex
	pending map[ledger.ID]*try               // guarded by mu; grants whose engines have not begun
	secrets map[requestKey]map[string]string // guarded by mu; of callers that wait for an answer
}

// requestKey names a request of a caller, whatever allocations its tries have.
type requestKey struct{ caller, id string }

// try is one grant of a launch.
type try struct {
	allocation ledger.Allocation
	cancel     context.CancelFunc
	attached   chan struct{} // has one element when the host's agent has attached since
	secrets    chan struct{} // has one element when the caller has brought secrets since
}

// New makes a launcher. The hub tells it when agents attach.
func New(loop *commit.Loop, rows Rows, hub *orders.Hub, log *slog.Logger) *Launcher {
	l := &Launcher{Loop: loop, Rows: rows, Hub: hub, Log: log, needed: make(chan struct{}), pending: make(map[ledger.ID]*try), secrets: make(map[requestKey]map[string]string)}
	hub.Attached = l.attached
	return l
}

// Need says that there are agents or requests that want orders. Until then Run follows nothing: a
// cluster that starts no engines from elsewhere pays nothing.
func (l *Launcher) Need() { l.isFirst.Do(func() { close(l.needed) }) }

// Run sends orders until ctx ends, whenever this coordinator leads. Streams of agents end with the
// leadership.
func (l *Launcher) Run(ctx context.Context) {
	select {
	case <-l.needed:
	case <-ctx.Done():
		return
	}
	var tries sync.WaitGroup
	defer tries.Wait()
	for ctx.Err() == nil {
		if l.Loop.Leading() {
			err := l.follow(ctx, &tries)
			l.clear()
			l.Hub.Cut(fmt.Errorf("this coordinator does not lead any more: %w", err))
		}
		pause.For(again, ctx.Done(), nil)
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

// isDue reports whether the engine of a launch is to be launched, or may be.
func isDue(a *ledger.Allocation) bool {
	launch := a.Launch()
	return launch != nil && launch.Row != 0 && a.State == ledger.Reserved && !a.Stopping
}

// changed takes over what became of an allocation with a launch.
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

// clear forgets all tries: their leadership is over.
func (l *Launcher) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.pending {
		t.cancel()
	}
	clear(l.pending)
}

// attached has the orders of a host sent again.
func (l *Launcher) attached(host string) {
	l.Need()
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

// launch sends the order of a grant until ctx ends, which it does when the allocation is no longer
// due.
func (l *Launcher) launch(ctx context.Context, t *try) {
	a := &t.allocation
	record, err := l.record(ctx, a)
	if err != nil {
		if ctx.Err() == nil {
			l.fail(ctx, a, err.Error())
		}
		return
	}
	since := time.Now()
	sent := false
	for {
		secrets, complete := l.secretsOf(a, record.GetSecrets())
		switch {
		case !complete && time.Since(since) >= secretsPatience:
			l.fail(ctx, a, "its caller, who has the values of its secrets, does not wait for it any more")
			return
		case complete && l.send(a, record.GetSpec(), secrets):
			sent = true
		case complete && !sent && time.Since(since) >= attachPatience:
			l.fail(ctx, a, "its agent takes no orders: its file allows no engine of callers elsewhere, or it is not connected, or of an older version")
			return
		}
		wait, news := time.Second, t.secrets
		if sent {
			wait, news = orderAgain, nil // the secrets are with the agent
		}
		select {
		case <-ctx.Done():
			return
		case <-t.attached:
		case <-news:
		case <-time.After(wait):
		}
	}
}

// record reads what is to be executed.
func (l *Launcher) record(ctx context.Context, a *ledger.Allocation) (*storev1.LaunchRecord, error) {
	payload, err := l.Rows.Launch(ctx, a.Launch().Row)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errors.New("the coordinators' store has lost what is to be executed")
	}
	if err != nil {
		return nil, fmt.Errorf("what is to be executed could not be read: %w", err)
	}
	record := &storev1.LaunchRecord{}
	if err := proto.Unmarshal(payload, record); err != nil {
		return nil, errors.New("what is to be executed is damaged in the coordinators' store")
	}
	return record, nil
}

// send gives the order to the host's agent, if that is attached.
func (l *Launcher) send(a *ledger.Allocation, spec *bursarv1.LaunchSpec, secrets map[string]string) bool {
	order := &bursarv1.LaunchOrder{AllocationId: a.ID.String(), GrantRevision: a.GrantRevision}
	var err error
	if order.Spec, err = proto.Marshal(spec); err == nil && len(secrets) > 0 {
		order.Secrets, err = proto.Marshal(&bursarv1.LaunchSecrets{Variables: secrets})
	}
	if err != nil { // what was decoded can be encoded
		return false
	}
	return l.Hub.Send(a.HostID, &bursarv1.AttachResponse{Epoch: l.Loop.Epoch(), Order: &bursarv1.AttachResponse_Launch{Launch: order}})
}

// fail ends a try that has begun nothing, as far as this coordinator knows.
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

// Begun takes over that an engine has begun.
func (l *Launcher) Begun(ctx context.Context, c ledger.LaunchBegun) error {
	_, err := commit.Decide(ctx, l.Loop, func(book *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return book.BeginLaunch(now, c)
	})
	return err //nolint:wrapcheck // says all
}

// Failed takes over that a try has begun nothing.
func (l *Launcher) Failed(ctx context.Context, c ledger.LaunchFailed) error {
	_, err := commit.Decide(ctx, l.Loop, func(book *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return book.FailLaunch(now, c)
	})
	return err //nolint:wrapcheck // says all
}

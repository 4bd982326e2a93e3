package ready

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/look"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// maxReason bounds Result.Reason, in bytes: that of Allocation.phase_reason.
const maxReason = 1024

// Deps are the parts of an agent that a Watcher needs.
type Deps struct {
	// Proc is the process table, /proc.
	Proc string
	// Records has the findings of the helpers of keepers.
	Records launch.Records
	// Opener opens processes. Nil: only Engine.Ended tells that an engine has ended.
	Opener *process.Opener
	// Others are the main processes of all engines of the host. An engine may have started another
	// one, whose port is not its own. Nil: no engine does so.
	Others func() []process.Ref
}

// Engine is an engine that runs.
type Engine struct {
	// ID is its allocation.
	ID string
	// Root is its main process, and Reaper its keeper; zero: it has none.
	Root, Reaper process.Ref
	// Begun is when it started: by the process table, not by the clock of an earlier incarnation of
	// the agent. See Begun.
	Begun time.Time
	// Ended is closed when it has ended. Nil: the end of Reaper is its end, or that of Root.
	Ended <-chan struct{}
}

// Result is how a check ended. The zero value says that it has not.
type Result struct {
	// Phase is PHASE_READY or PHASE_FAILED.
	Phase bursarv1.Phase `json:"phase"`
	// Time is when that was found.
	Time time.Time `json:"time"`
	// Reason says why it failed, printable: its last part may be the user's own words.
	Reason string `json:"reason,omitempty"`
	// Ended: it failed because the engine has ended, or its keeper has.
	Ended bool `json:"ended,omitempty"`
}

// Watcher follows engines until they are ready. Make it with New.
type Watcher struct {
	deps    Deps
	tables  *tables
	counts  counts
	running sync.WaitGroup
	// looking is held by the look at a port that is under way: all of them together take one core
	// at most, however many files the engines have open.
	looking sync.Mutex
}

// New returns a Watcher.
func New(deps Deps) *Watcher {
	w := &Watcher{deps: deps}
	w.tables = &tables{proc: deps.Proc, counts: &w.counts, known: make(map[string]*table)}
	return w
}

// Watch follows an engine until it is ready or has failed to be, sends that, and closes the
// channel. If ctx ends before, it closes the channel without a result, and the check may be
// resumed.
func (w *Watcher) Watch(ctx context.Context, e Engine, c Check) <-chan Result {
	results := make(chan Result, 1)
	w.running.Go(func() {
		defer close(results)
		if result, done := w.follow(ctx, e, c); done {
			results <- result
		}
	})
	return results
}

// Wait waits until no Watch is under way.
func (w *Watcher) Wait() { w.running.Wait() }

// finding is the result of one look.
type finding struct {
	ready  bool
	at     time.Time // when that was found; zero: now
	reason string    // why it is not ready
	// cost is how long this process has worked for it.
	cost time.Duration
}

// probe looks once. process.ErrEnded: the engine has ended.
type probe interface {
	look(ctx context.Context) (finding, error)
}

func (w *Watcher) follow(ctx context.Context, e Engine, c Check) (result Result, done bool) {
	var p probe = &helperProbe{records: w.deps.Records, engine: e}
	interval := defaultInterval // a look at a record costs next to nothing
	if c.Port != 0 {
		p = &portProbe{watcher: w, engine: e, port: c.Port}
		interval = c.Interval
	}
	ended, stop := w.ended(ctx, e)
	defer stop()
	for {
		found, err := p.look(ctx)
		now := time.Now()
		switch {
		case found.ready:
			if found.at.Before(e.Begun) || found.at.After(now) {
				found.at = now
			}
			return Result{Phase: bursarv1.Phase_PHASE_READY, Time: found.at}, true
		case ctx.Err() != nil:
			return Result{}, false
		case errors.Is(err, process.ErrEnded) || isClosed(ended):
			result := failed(now, "the engine ended before it was ready", found.reason)
			result.Ended = true
			return result, true
		case now.Sub(e.Begun) >= c.Within:
			return failed(now, "not ready within "+c.Within.String(), found.reason), true
		}
		pause := look.Pause(now.Sub(e.Begun), found.cost, interval)
		timer := time.NewTimer(min(pause, c.Within-now.Sub(e.Begun)))
		select {
		case <-timer.C:
		case <-ended: // one more look: it may have been ready
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return Result{}, false
		}
	}
}

func failed(at time.Time, what, reason string) Result {
	if reason != "" {
		what += ": " + reason
	}
	return Result{Phase: bursarv1.Phase_PHASE_FAILED, Time: at, Reason: spelling.Cut(what, maxReason)}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// ended is closed when the engine has ended. stop ends the goroutine that waits for that.
func (w *Watcher) ended(ctx context.Context, e Engine) (ended <-chan struct{}, stop func()) {
	if e.Ended != nil || w.deps.Opener == nil {
		return e.Ended, func() {}
	}
	closed := make(chan struct{})
	ref := e.Reaper
	if ref.PID == 0 {
		ref = e.Root
	}
	handle, err := w.deps.Opener.Open(ref)
	if err != nil {
		if errors.Is(err, process.ErrEnded) {
			close(closed)
		}
		return closed, func() {} // otherwise looks and the time tell
	}
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if handle.Wait(ctx) == nil {
			close(closed)
		}
	})
	return closed, func() {
		cancel()
		waiting.Wait()
		handle.Close()
	}
}

// helperProbe reads the findings of an engine's helper from its record.
type helperProbe struct {
	records launch.Records
	engine  Engine
	size    int64 // of the record when it was last read
	last    finding
}

func (p *helperProbe) look(context.Context) (finding, error) {
	size, err := p.records.Size(p.engine.ID)
	switch {
	case errors.Is(err, launch.ErrNone):
		return finding{reason: "the engine has no record"}, nil
	case err != nil:
		return finding{reason: err.Error()}, nil //nolint:nilerr // the next look may do better
	case size == p.size && p.last != (finding{}):
		return p.last, nil
	}
	looked, err := p.records.Looked(p.engine.ID)
	switch {
	case errors.Is(err, launch.ErrNone):
		return finding{reason: "no look has ended yet"}, nil
	case err != nil:
		return finding{reason: err.Error()}, nil //nolint:nilerr // the next look may do better
	}
	p.size, p.last = size, finding{ready: looked.Ready, at: looked.Time, reason: looked.Reason}
	return p.last, nil
}

// Begun is when a process started, by the clock of this process as it goes now. ticks is the time
// since boot, as host.TicksSinceBoot has it, in ticks of 10 ms.
func Begun(ref process.Ref, ticks uint64) time.Time {
	const tick = 10 * time.Millisecond
	if ref.StartTime >= ticks {
		return time.Now()
	}
	return time.Now().Add(-time.Duration(ticks-ref.StartTime) * tick) //nolint:gosec // less than centuries
}

// portReason says that nothing listens.
func portReason(port int32) string { return fmt.Sprintf("nothing listens on port %d", port) }

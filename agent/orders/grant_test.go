package orders

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/agent/hoststate"
	"github.com/bursar/bursar/agent/loops"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A caller waits for the engine: the Sync that brings its grant does not wait for the time between
// two Syncs. If that Sync has not brought it, the next ones do, or a coordinator that lies would
// have this host send one after the other.
func TestTheFirstSyncForAGrantIsSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := hoststate.New(slog.New(slog.DiscardHandler), func() string { return "h1" }, func(time.Duration, error) {})
		state.Open(nil, "boot-1", 3)
		state.Begin(tracker.New(time.Now(), tracker.Host{ID: "h1", BootID: "boot-1", Incarnation: 3}, tracker.Snapshot{Epoch: 5}))
		later := time.Now().Add(time.Hour)
		due := loops.NewWakeup(later)
		due.Set(later, later)
		taker := New(Options{HostID: func() string { return "h1" }, State: state, SyncDue: due})
		ctx, cancel := context.WithCancel(t.Context())
		refused := make(chan error, 1)
		go func() {
			_, err := taker.grant(ctx, &bursarv1.LaunchOrder{AllocationId: "coming"})
			refused <- err
		}()
		synctest.Wait()
		if when := due.When(); when.After(time.Now()) {
			t.Errorf("an order has come: the Sync is due at %v", when)
		}
		due.Set(later, later)
		state.Locked(func(*tracker.Tracker) { state.Answered.Happened() })
		synctest.Wait()
		if when := due.When(); !when.Equal(later) {
			t.Errorf("the first Sync has not brought the grant: the next one is due at %v, want %v", when, later)
		}
		cancel()
		if err := <-refused; err == nil {
			t.Error("a grant came from nowhere")
		}
	})
}

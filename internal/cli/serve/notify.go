package serve

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/bursar/bursar/internal/reload"
)

const (
	// statusEvery is how often the status line is computed. It is sent if it has changed.
	statusEvery = time.Second
	// waitingFor is how much longer a start may take after it has named the reason.
	waitingFor = time.Minute
	// stoppingBeyond is how much longer than its own limit a stop may take, for the steps after
	// it.
	stoppingBeyond = 5 * time.Second
)

// served is a server as a service manager sees it.
type served struct {
	run   func(ctx context.Context) error
	ready <-chan struct{}
	// waits brings the reason for which a start waits. Nil: it does not wait.
	waits <-chan string
	// status says in one line what matters now.
	status func() string
	// live says whether its loops work.
	live func(ctx context.Context) error
	// reload makes the server read its files again.
	reload  func(ctx context.Context) (reload.Changes, error)
	hangups <-chan os.Signal
	// stopping is the most time that the server takes to stop.
	stopping time.Duration
}

// notifier tells a service manager the state of a server, by the protocol of sd_notify(3). Without
// a service manager it does nothing. One goroutine uses it at a time.
type notifier struct {
	log      *slog.Logger
	watchdog time.Duration // 0: nobody watches
	status   string        // as it was told last
	problem  string        // for which the watchdog was not fed last
	deaf     bool          // nobody hears it
}

func newNotifier(log *slog.Logger) *notifier {
	n := &notifier{log: log}
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the watchdog is not fed", "error", err)
	}
	n.watchdog = watchdog
	return n
}

// send sends assignments, one a line.
func (n *notifier) send(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil && !n.deaf {
		n.deaf = true
		n.log.Warn("the service manager does not hear", "error", err)
	}
}

// waits says that the start takes long, and why.
func (n *notifier) waits(what string) {
	n.status = what
	n.send(fmt.Sprintf("STATUS=%s\nEXTEND_TIMEOUT_USEC=%d", what, waitingFor.Microseconds()))
}

// supervise runs a server and reports its state.
func (n *notifier) supervise(ctx context.Context, s served) error {
	ended := make(chan struct{})
	var following sync.WaitGroup
	following.Go(func() { n.follow(ctx, s, ended) })
	err := s.run(ctx)
	close(ended)
	following.Wait()
	return err
}

func (n *notifier) follow(ctx context.Context, s served, ended <-chan struct{}) {
	status := time.NewTicker(statusEvery)
	defer status.Stop()
	feed := time.NewTicker(max(n.watchdog/2, time.Millisecond))
	defer feed.Stop()
	if n.watchdog == 0 {
		feed.Stop()
	}
	if !n.await(ctx, s, ended) {
		return
	}
	hangups, reloaded := s.hangups, make(chan struct{}, 1)
	var reloading sync.WaitGroup
	defer reloading.Wait()
	for {
		select {
		case <-ended:
			return
		case <-ctx.Done():
			n.stops(s, feed.C, ended)
			return
		case <-hangups:
			hangups = nil // one after the other
			n.send(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
			reloading.Go(func() {
				n.reload(ctx, s)
				reloaded <- struct{}{}
			})
		case <-reloaded:
			hangups = s.hangups
			n.send(daemon.SdNotifyReady)
		case <-status.C:
			n.tell(s.status())
		case <-feed.C:
			n.feed(ctx, s)
		}
	}
}

// await waits until the server is ready and says so; false if it ends before.
func (n *notifier) await(ctx context.Context, s served, ended <-chan struct{}) bool {
	for waits := true; waits; {
		select {
		case <-s.ready:
			waits = false
		case what := <-s.waits:
			n.waits(what)
		case <-ended:
			return false
		case <-ctx.Done():
			n.send(daemon.SdNotifyStopping)
			<-ended
			return false
		}
	}
	n.status = s.status()
	n.send(daemon.SdNotifyReady + "\nSTATUS=" + n.status)
	return true
}

func (n *notifier) tell(status string) {
	if status != n.status {
		n.status = status
		n.send("STATUS=" + status)
	}
}

// feed feeds the watchdog, unless the server hangs.
func (n *notifier) feed(ctx context.Context, s served) {
	err := s.live(ctx)
	if err == nil {
		n.problem = ""
		n.send(daemon.SdNotifyWatchdog)
		return
	}
	if ctx.Err() == nil && n.problem != err.Error() {
		n.problem = err.Error()
		n.log.Error("the watchdog is not fed: something hangs", "error", err)
	}
}

// stops says that the server stops, and how long that may take.
func (n *notifier) stops(s served, feed <-chan time.Time, ended <-chan struct{}) {
	most := s.stopping + stoppingBeyond
	n.send(fmt.Sprintf("%s\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=%d", daemon.SdNotifyStopping, most.Microseconds()))
	over := time.NewTimer(most)
	defer over.Stop()
	for {
		select {
		case <-ended:
			return
		case <-over.C:
			// The time is over: the service manager may end it.
			<-ended
			return
		case <-feed:
			n.send(daemon.SdNotifyWatchdog)
		}
	}
}

// reload makes the server read its files again and logs the result.
func (n *notifier) reload(ctx context.Context, s served) {
	changes, err := s.reload(ctx)
	switch {
	case err != nil:
		n.log.Error("the configuration was not reloaded: what was in force stays", "error", err)
		return
	case changes.Empty():
		n.log.Info("reloaded: the configuration is as it was; the files that it names were read again")
	default:
		n.log.Info("reloaded", "changed", changes.Taken)
	}
	if len(changes.Kept) > 0 {
		n.log.Warn("these fields change at the next start only", "fields", changes.Kept)
	}
}

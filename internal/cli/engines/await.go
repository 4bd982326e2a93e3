package engines

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/outputs"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/pause"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// waitPart is how long one call of Wait may take: a connection that died without a word costs
	// no more than that.
	waitPart = time.Minute
	// answerTime is how much longer than asked for an answer may take.
	answerTime = 10 * time.Second
	// retryPause is the time between two calls that nobody answers.
	retryPause = 250 * time.Millisecond
)

// awaited is the event that a command waits for.
type awaited struct {
	id    string
	ready bool // answer when it is ready, too
	// until is when the wait is over; zero: never.
	until time.Time
	// insist: somebody has answered already, so an outage may last as long as it wants.
	insist bool
	// left is told, once, of an engine whose main process has ended while others of it
	// go on. Nil: nobody is.
	left func(a *bursarv1.Allocation)
	// lost is told, once in an outage, why nobody answers.
	lost func(err error)
}

// await waits until an engine is ready or has ended, also while the leader changes. timedOut: the
// time is over.
func await(ctx context.Context, cl *client.Client, w awaited) (a *bursarv1.Allocation, timedOut bool, err error) {
	calls := quiet(cl)
	var since time.Time // of the outage; zero: there is none
	told, absent := false, true
	for {
		part := waitPart
		if !w.until.IsZero() {
			part = max(0, min(part, time.Until(w.until)))
		}
		calling, cancel := context.WithTimeout(ctx, part+answerTime)
		res, err := calls.Engines().Wait(calling, &bursarv1.WaitRequest{Id: w.id, Ready: w.ready, Timeout: durationpb.New(part), LeaderEnd: w.left != nil})
		cancel()
		now := time.Now()
		over := !w.until.IsZero() && !now.Before(w.until)
		switch {
		case ctx.Err() != nil:
			return nil, false, ctx.Err() //nolint:wrapcheck // the caller's own
		case err == nil && (w.tellLeft(res.GetAllocation()) || res.GetTimedOut() && !over):
			since, told, w.insist = time.Time{}, false, true
			continue
		case err == nil:
			return res.GetAllocation(), res.GetTimedOut(), nil
		case !outputs.MayComeBack(err), over:
			return nil, false, err
		}
		if since.IsZero() {
			since = now
		}
		if !told && w.lost != nil && now.Sub(since) >= servers.UnansweredUnseen {
			told = true
			w.lost(err)
		}
		absent = absent && client.Unconnected(err)
		if !w.insist && now.Sub(since) > patience(absent) {
			return nil, false, err
		}
		if !pause.For(retryPause, ctx.Done(), nil) {
			return nil, false, ctx.Err() //nolint:wrapcheck // the caller's own
		}
	}
}

// patience is how long a command goes on that nobody has answered. absent: it has got no connection
// so far.
func patience(absent bool) time.Duration {
	if absent {
		return servers.AbsentPatience
	}
	return servers.PresentPatience
}

// tellLeft tells left, once, that an engine's main process has ended while others of it go on. It
// reports whether it did.
func (w *awaited) tellLeft(a *bursarv1.Allocation) bool {
	if w.left == nil || a.GetLeaderEnd() == nil || render.HasEnded(a) {
		return false
	}
	w.left(a)
	w.left = nil
	return true
}

// sayLeft says that an engine goes on without its main process, and how to stop the rest.
func sayLeft(out *render.Printer, a *bursarv1.Allocation, stops string) {
	out.Sayf("bursar: the command has ended (%s), but processes that it has started still run: the allocation %s stays until the last one has ended",
		cmp.Or(render.ExitText(a.GetLeaderEnd().GetExitStatus()), "nobody knows how"), a.GetId())
	out.Sayf("bursar: %s", stops)
}

// quiet returns a client whose calls are made once, and of which nobody is told: its caller repeats
// them as long as it wants.
func quiet(cl *client.Client) *client.Client {
	return cl.With(client.WithoutRetries(), client.WithNotice(0, nil))
}

package callers

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/report"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// reportAfter is how long a request waits for a coordinator before the agent sends a Sync because
// of it, and reportGap how long after the last Sync that is at least. A leader that has just begun
// waits for the host's Sync, and the agent may not know yet that it leads. If an attempt of the
// request was made before, that is likely, and it reports within report.CallersSpread.
const (
	reportAfter = 300 * time.Millisecond
	reportGap   = time.Second
)

// whileWaiting returns the call of a request, which sends a Sync if the answer takes long. A
// request that waits does so with the agent's stream. If the coordinator knows no such stream, the
// request's own call lasts; if an attempt of that breaks, the next goes as other calls do: a proxy
// on the way may know no HTTP/2.
func (a *API) whileWaiting(request *bursarv1.AllocateRequest) func(context.Context, *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	waited := time.Now().Add(convert.Wait(request))
	shares := convert.Wait(request) > 0
	waits := shares
	after := reportAfter
	return func(ctx context.Context, request *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
		late := time.AfterFunc(after, func() {
			a.syncDue.NoLaterThan(later(time.Now(), a.reports.SyncedAt().Add(reportGap)))
		})
		defer late.Stop()
		after = report.CallersSpread // of the next attempt, if there is one
		convert.WaitAtMost(request, time.Until(waited))
		if waits {
			response, err := a.waits.allocate(ctx, request)
			if !errors.Is(err, errNoWaitStream) {
				return response, err
			}
		}
		if !shares {
			return a.allocations.Allocate(inNameOf(ctx), request)
		}
		response, err := a.waiting.Allocate(inNameOf(ctx), request)
		shares = err == nil || connect.IsWireError(err)
		return response, err
	}
}

// unknownTo reports whether a request was refused because the coordinator does not know this host,
// or not all that runs on it.
func (a *API) unknownTo(err error) bool {
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
func (a *API) agree(ctx context.Context) bool {
	answered := a.state.Answered.Next()
	for {
		a.syncDue.NoLaterThan(time.Now())
		select {
		case <-answered:
		case <-ctx.Done():
			return false
		}
		agreed := false
		a.state.Locked(func(t *tracker.Tracker) { agreed, answered = t.Agreed(), a.state.Answered.Next() })
		if agreed {
			return true
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

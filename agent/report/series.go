package report

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/clusterid"
)

const (
	// loudEvery is after how many failures a series is logged as a warning again: once a minute.
	loudEvery = 30
	// loudTexts is how many different failures of a series are logged as warnings at once. Several
	// coordinators may fail in turn, each with a text of its own, and some texts have another port
	// each time.
	loudTexts = 8
)

// series is failures without a success in between.
type series struct {
	count  int
	logged []string // the failures that were logged as warnings at once
}

// loud reports whether a failure is to be logged as a warning: a new one is, and one of every
// loudEvery.
func (s *series) loud(err error) bool {
	s.count++
	if text := err.Error(); len(s.logged) < loudTexts && !slices.Contains(s.logged, text) {
		s.logged = append(s.logged, text)
		return true
	}
	return s.count%loudEvery == 0
}

// logFailure logs a failure: as a warning if it is loud, else at level debug.
func (r *Reporter) logFailure(ctx context.Context, s *series, err error, delay time.Duration) {
	level := slog.LevelDebug
	if s.loud(err) {
		level = slog.LevelWarn
	}
	text := "the coordinator does not answer: engines go on, new requests wait"
	if _, other := errors.AsType[*clusterid.Error](err); other {
		text = "no coordinator of this host's cluster answers, and another cluster's does: engines go on, new requests wait"
	}
	switch connect.CodeOf(err) { //nolint:exhaustive // the others may be over by themselves
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		text = "the coordinator refuses this agent: engines go on, new requests wait"
	case connect.CodeAlreadyExists:
		text = "another agent has this host's id: this one starts no engines"
	}
	r.log.Log(ctx, level, text, "error", err, "failures", s.count, "retry_in", delay.Round(time.Millisecond).String())
}

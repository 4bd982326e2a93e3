package coordinator

import (
	"context"
	"errors"
	"slices"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Explain predicts the decision on a request, or tells why a request waits.
func (s *allocationService) Explain(ctx context.Context, req *bursarv1.ExplainRequest) (*bursarv1.ExplainResponse, error) {
	switch {
	case req.GetId() != "" && req.GetRequest() != nil:
		return nil, wire.FieldError("request", "", "either id or request, not both")
	case req.GetId() != "":
		return s.explainID(ctx, req.GetId())
	case req.GetRequest() == nil:
		return nil, wire.FieldError("id", "", "an id or a request")
	}
	command, err := s.command(ctx, req.GetRequest(), nil)
	if err != nil {
		return nil, err
	}
	var counted []string // the keys that rules count by
	x, err := commit.Decide(ctx, s.loop, func(l *ledger.Ledger, now ledger.Instant) (ledger.Explanation, error) {
		counted = l.CountedKeys()
		return l.Explain(now, command)
	})
	if err != nil {
		return nil, err
	}
	m, known := wire.ExplanationMessage(&x), s.labels.Known()
	for _, of := range command.Labels {
		if slices.Contains(counted, of.Key) {
			continue
		}
		if doubt := label.Doubt(of.Key, known); doubt != "" {
			m.Warnings = append(m.Warnings, doubt)
		}
	}
	return m, nil
}

func (s *allocationService) explainID(ctx context.Context, text string) (*bursarv1.ExplainResponse, error) {
	id, err := wire.ParseID("id", text)
	if err != nil {
		return nil, err
	}
	x, last, err := onLastTry(ctx, s, id, func(l *ledger.Ledger, now ledger.Instant, id ledger.ID) (ledger.Explanation, error) {
		return l.ExplainID(now, id, auth.ActorOf(ctx))
	})
	if _, unknown := errors.AsType[*ledger.NotFoundError](err); unknown {
		var a ledger.Allocation
		if a, err = s.getEnded(ctx, last); err == nil {
			x = ledger.Explanation{Verdict: ledger.Decided, Allocation: &a, HostID: a.HostID, Place: -1}
		}
	}
	if err != nil {
		return nil, ofLastTry(id, last, err)
	}
	return wire.ExplanationMessage(&x), nil
}

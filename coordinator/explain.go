package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Explain says what a request would meet, or why one waits.
func (s *allocationService) Explain(ctx context.Context, req *bursarv1.ExplainRequest) (*bursarv1.ExplainResponse, error) {
	switch {
	case req.GetId() != "" && req.GetRequest() != nil:
		return nil, fieldError("request", "", "either id or request, not both")
	case req.GetId() != "":
		return s.explainID(ctx, req.GetId())
	case req.GetRequest() == nil:
		return nil, fieldError("id", "", "an id or a request")
	}
	command, err := s.command(ctx, req.GetRequest())
	if err != nil {
		return nil, err
	}
	x, err := decide(ctx, s.writer, func(l *ledger.Ledger, now ledger.Instant) (ledger.Explanation, error) { return l.Explain(now, command) })
	if err != nil {
		return nil, err
	}
	return explanationMessage(&x), nil
}

func (s *allocationService) explainID(ctx context.Context, text string) (*bursarv1.ExplainResponse, error) {
	id, err := parseID("id", text)
	if err != nil {
		return nil, err
	}
	x, err := decide(ctx, s.writer, func(l *ledger.Ledger, now ledger.Instant) (ledger.Explanation, error) {
		if err := onOwnHost(l, auth.ActorOf(ctx), id); err != nil {
			return ledger.Explanation{}, err
		}
		return l.ExplainID(now, id)
	})
	if _, unknown := errors.AsType[*ledger.NotFoundError](err); unknown {
		var a ledger.Allocation
		if a, err = s.ended(ctx, id); err == nil {
			x = ledger.Explanation{Verdict: ledger.Decided, Allocation: &a, HostID: a.HostID, Place: -1}
		}
	}
	if err != nil {
		return nil, err
	}
	return explanationMessage(&x), nil
}

func explanationMessage(x *ledger.Explanation) *bursarv1.ExplainResponse {
	m := &bursarv1.ExplainResponse{
		Verdict: bursarv1.ExplainResponse_Verdict(x.Verdict), Summary: summary(x),
		Shortfalls: shortfallMessages(x.Shortfalls), Accounts: accountMessages(x.Accounts), Filters: filtersMessage(x.Filters),
		HostId: x.HostID, Place: int64(max(0, x.Place)),
	}
	if x.BlockedBy != nil {
		m.BlockedBy = accountNameMessage(*x.BlockedBy)
	}
	if x.Allocation != nil {
		m.Allocation = AllocationMessage(x.Allocation)
	}
	return m
}

// summary is the explanation in one line.
func summary(x *ledger.Explanation) string {
	switch x.Verdict {
	case ledger.Fits:
		return "it fits, on host " + x.HostID
	case ledger.Never:
		return "it can never fit: " + why(x)
	case ledger.Decided:
		text := "it is " + core.DescribeEnd(x.Allocation)
		if x.HostID != "" {
			text += ", on host " + x.HostID
		}
		return text
	case ledger.Waits:
	}
	if x.Allocation == nil {
		return "it does not fit now: " + why(x)
	}
	text := "it waits"
	if x.BlockedBy != nil {
		text += " behind " + x.BlockedBy.String()
	}
	if x.Place >= 0 {
		text += fmt.Sprintf(", %d before it", x.Place)
	}
	return text + ": " + why(x)
}

func why(x *ledger.Explanation) string {
	parts := make([]string, 0, len(x.Shortfalls)+1)
	for _, s := range x.Shortfalls {
		parts = append(parts, s.String())
	}
	if len(parts) == 0 && x.Filters != nil {
		parts = append(parts, x.Filters.String())
	}
	if len(parts) == 0 {
		return "nothing is short; it will be looked at again"
	}
	return strings.Join(parts, "; ")
}

package wire

import (
	"fmt"
	"strings"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// ExplanationMessage converts an explanation, and adds a summary in words.
func ExplanationMessage(x *ledger.Explanation) *bursarv1.ExplainResponse {
	m := &bursarv1.ExplainResponse{
		Verdict: bursarv1.ExplainResponse_Verdict(x.Verdict), Summary: summary(x),
		Shortfalls: shortfallMessages(x.Shortfalls), Accounts: AccountMessages(x.Accounts), Filters: filtersMessage(x.Filters),
		HostId: x.HostID, Place: int64(max(0, x.Place)), Runners: runnersMessages(x.Runners),
	}
	if x.BlockedBy != nil {
		m.BlockedBy = accountNameMessage(*x.BlockedBy)
	}
	if x.Allocation != nil {
		m.Allocation = AllocationMessage(x.Allocation)
	}
	return m
}

// summary returns the explanation in one line.
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

// InsufficientMessage returns the detail of a refusal for lack of resources.
func InsufficientMessage(e *ledger.InsufficientError) *bursarv1.InsufficientResources {
	verdict := bursarv1.InsufficientResources_VERDICT_NOT_NOW
	if e.Never {
		verdict = bursarv1.InsufficientResources_VERDICT_NEVER
	}
	return &bursarv1.InsufficientResources{
		Shortfalls: shortfallMessages(e.Shortfalls), Filters: filtersMessage(e.Filters), Reason: e.Reason, Verdict: verdict,
		Runners: runnersMessages(e.Runners),
	}
}

func runnersMessages(list []ledger.Runners) (messages []*bursarv1.Runners) {
	for i := range list {
		r := &list[i]
		m := &bursarv1.Runners{
			Account: accountNameMessage(r.Account), Dimension: r.Dimension, LookedAt: int64(r.Looked), Allocations: int64(r.Of),
		}
		for _, runner := range r.Largest {
			m.Largest = append(m.Largest, &bursarv1.Runner{
				Id: runner.ID.String(), User: runner.User, Resource: VectorMessage(runner.Size), HostId: runner.HostID, ReserveTime: TimeMessage(runner.Since),
			})
		}
		messages = append(messages, m)
	}
	return messages
}

package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/forward"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/orders"
	"github.com/bursar/bursar/coordinator/outputs"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/clusterid"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// endedError refuses a command for an allocation that is over.
type endedError struct {
	Allocation ledger.Allocation
	Want       string
}

func (e *endedError) Error() string {
	return fmt.Sprintf("allocation %s is %s: want %s", e.Allocation.ID, core.DescribeEnd(&e.Allocation), e.Want)
}

// rpcError is the one place that maps errors to RPC errors: a canonical code, the error's text, and
// a typed detail for errors on which a caller may decide.
func rpcError(err error) error {
	if err == nil {
		return nil
	}
	if code := outputCode(err); code != 0 { // first, because of what it wraps
		return connect.NewError(code, err)
	}
	if already, ok := errors.AsType[*connect.Error](err); ok {
		return already
	}
	if again := tryAgain(err); again > 0 {
		return admission.Refusal(err, again)
	}
	code, detail := classify(err)
	answer := connect.NewError(code, err)
	if detail == nil {
		return answer
	}
	if d, err := connect.NewErrorDetail(detail); err == nil { // our own messages always marshal
		answer.AddDetail(d)
	}
	return answer
}

func classify(err error) (connect.Code, proto.Message) {
	// First, because the store's error that it wraps may name a field of another caller's command.
	if _, ok := errors.AsType[*commit.Error](err); ok {
		return connect.CodeUnavailable, nil
	}
	if _, ok := errors.AsType[*commit.LookUpError](err); ok {
		return connect.CodeUnavailable, nil
	}
	if insufficient, ok := errors.AsType[*ledger.InsufficientError](err); ok {
		if insufficient.Returning {
			// by which the host's agent knows that it is to report
			return connect.CodeUnavailable, wire.InsufficientMessage(insufficient)
		}
		return connect.CodeResourceExhausted, wire.InsufficientMessage(insufficient)
	}
	if wrong, ok := errors.AsType[*commit.RevisionError](err); ok {
		return connect.CodeOutOfRange, revisionField(wrong)
	}
	if conflict, ok := errors.AsType[*ledger.ConflictError](err); ok {
		return connect.CodeAlreadyExists, &bursarv1.InvalidField{
			Field: "request_id", Value: conflict.RequestID,
			Want: fmt.Sprintf("a new one, because allocation %s has it, of another request; or that request again", conflict.ID),
		}
	}
	if failed, ok := errors.AsType[*startError](err); ok {
		return connect.CodeFailedPrecondition, wire.AllocationMessage(&failed.allocation)
	}
	if ended, ok := errors.AsType[*endedError](err); ok {
		return connect.CodeFailedPrecondition, wire.AllocationMessage(&ended.Allocation)
	}
	if stranger, ok := errors.AsType[*ledger.StrangerError](err); ok {
		return connect.CodeAlreadyExists, &bursarv1.InvalidField{Field: "host_id", Value: stranger.Host, Want: "an id of its own for an agent " + stranger.What}
	}
	if detail := invalidField(err); detail != nil {
		return connect.CodeInvalidArgument, detail
	}
	if code := ledgerCode(err); code != 0 {
		return code, nil
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return connect.CodeNotFound, nil
	case errors.Is(err, commit.ErrAuditDisturbed):
		return connect.CodeAborted, nil
	case errors.Is(err, core.ErrNotLeading), errors.Is(err, forward.ErrLeaderless), errors.Is(err, core.ErrStopping), errors.Is(err, auth.ErrRightsChanged), errors.Is(err, store.ErrClosed):
		return connect.CodeUnavailable, nil
	case errors.Is(err, commit.ErrTooOld), errors.Is(err, commit.ErrFellBehind), errors.Is(err, commit.ErrAhead):
		return connect.CodeOutOfRange, nil
	case errors.Is(err, context.DeadlineExceeded):
		return connect.CodeDeadlineExceeded, nil
	case errors.Is(err, context.Canceled), errors.Is(err, core.ErrWithdrawn):
		return connect.CodeCanceled, nil
	default:
		return connect.CodeInternal, nil
	}
}

// outputCode is the code of an error about the output of an engine; 0: it is none.
func outputCode(err error) connect.Code {
	if _, away := errors.AsType[*outputs.AwayError](err); away {
		return connect.CodeUnavailable
	}
	if _, busy := errors.AsType[*outputs.BusyError](err); busy {
		return connect.CodeResourceExhausted
	}
	switch {
	case errors.Is(err, outputs.ErrNoReader):
		return connect.CodeNotFound
	case errors.Is(err, outputs.ErrOtherHost):
		return connect.CodePermissionDenied
	}
	return 0
}

const (
	// fullFor is the retry delay of a caller that has too much: some of it must end first.
	fullFor = 30 * time.Second
	// busyFor is the retry delay of a caller with too many queued commands: the loop takes
	// thousands in that time.
	busyFor = 200 * time.Millisecond
)

// tryAgain is after how long a refused caller is asked to try again; 0: it is refused for
// something else.
func tryAgain(err error) time.Duration {
	switch _, lost := errors.AsType[*commit.Error](err); {
	case lost: // it may wrap anything
		return 0
	case errors.Is(err, commit.ErrBusy):
		return busyFor
	case isFull(err):
		return fullFor
	default:
		return 0
	}
}

// isFull reports whether a caller is refused because of its allocations in the ledger or the
// history.
func isFull(err error) bool {
	_, history := errors.AsType[*commit.HistoryFullError](err)
	_, live := errors.AsType[*ledger.LiveFullError](err)
	_, much := errors.AsType[*ledger.TooMuchError](err)
	return history || live || much
}

// ledgerCode is the code of the errors that decide by type; 0 for others.
func ledgerCode(err error) connect.Code {
	if _, ok := errors.AsType[*ledger.NotFoundError](err); ok {
		return connect.CodeNotFound
	}
	if _, ok := errors.AsType[*ledger.StateError](err); ok {
		return connect.CodeFailedPrecondition
	}
	if _, ok := errors.AsType[*ledger.DeniedError](err); ok {
		return connect.CodePermissionDenied
	}
	if _, ok := errors.AsType[*access.DeniedError](err); ok {
		return connect.CodePermissionDenied
	}
	if _, ok := errors.AsType[*access.UnknownError](err); ok {
		return connect.CodeUnauthenticated
	}
	if _, ok := errors.AsType[*ledger.StaleError](err); ok {
		return connect.CodeAborted
	}
	if _, ok := errors.AsType[*changedQuotaError](err); ok {
		return connect.CodeAborted
	}
	if _, ok := errors.AsType[*streamEndedError](err); ok {
		return connect.CodeAborted
	}
	if _, ok := errors.AsType[*streamLimitError](err); ok {
		return connect.CodeResourceExhausted
	}
	if _, ok := errors.AsType[*core.RefusedError](err); ok {
		return connect.CodeFailedPrecondition
	}
	if _, ok := errors.AsType[*clusterid.CallerError](err); ok {
		return connect.CodeFailedPrecondition
	}
	if _, ok := errors.AsType[*commit.PatienceError](err); ok {
		return connect.CodeDeadlineExceeded
	}
	return orderCode(err)
}

// orderCode is the code of an order to an agent that was not carried out; 0 for other errors. An
// order without an answer is not UNAVAILABLE: clients repeat a call that is, and the order may have
// been carried out.
func orderCode(err error) connect.Code {
	if _, ok := errors.AsType[*orders.NotAttachedError](err); ok {
		return connect.CodeUnavailable
	}
	if _, ok := errors.AsType[*awayError](err); ok { // an outage of minutes, which repeating does not end
		return connect.CodeDeadlineExceeded
	}
	if _, ok := errors.AsType[*orders.UnansweredError](err); ok {
		return connect.CodeDeadlineExceeded
	}
	if _, ok := errors.AsType[*orders.ProblemError](err); ok {
		return connect.CodeFailedPrecondition
	}
	return 0
}

// revisionField says after which revisions a watch may begin.
func revisionField(e *commit.RevisionError) proto.Message {
	want := fmt.Sprintf("at least %d, the oldest revision that is still held", e.Oldest)
	if e.After > e.Newest {
		want = fmt.Sprintf("at most %d, the newest revision of this ledger", e.Newest)
	}
	return &bursarv1.InvalidField{Field: "after_revision", Value: strconv.FormatUint(e.After, 10), Want: want}
}

// invalidField is the detail of INVALID_ARGUMENT; nil for other errors.
func invalidField(err error) proto.Message {
	if e, ok := errors.AsType[*ledger.FieldError](err); ok {
		return &bursarv1.InvalidField{Field: e.Field, Value: e.Value, Want: e.Want}
	}
	if e, ok := errors.AsType[*label.ClaimError](err); ok {
		want := "no such label: it is derived"
		if e.Derived != "" {
			want = fmt.Sprintf("%q, which is derived, or nothing", e.Derived)
		}
		return &bursarv1.InvalidField{Field: "labels[" + e.Key + "]", Value: e.Claimed, Want: want}
	}
	if errors.Is(err, store.ErrBadToken) || errors.Is(err, wire.ErrPageToken) {
		return &bursarv1.InvalidField{Field: "page_token", Want: "the next_page_token of an earlier answer, with the same filters"}
	}
	if detail, ok := convert.InvalidField(err); ok {
		return detail
	}
	return nil
}

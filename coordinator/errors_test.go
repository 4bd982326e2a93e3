package coordinator

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/internal/admission"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// It is too early to say no, and the agent of the host that is waited for must be able to see that
// it is its own.
func TestRefusalWhileAHostComesBackSaysWhichOne(t *testing.T) {
	for returning, want := range map[bool]connect.Code{true: connect.CodeUnavailable, false: connect.CodeResourceExhausted} {
		err, ok := errors.AsType[*connect.Error](rpcError(&ledger.InsufficientError{
			Returning: returning, Reason: "refused",
			Shortfalls: []ledger.Shortfall{{Account: ledger.AccountName{Kind: ledger.HostAccount}, Dimension: "memory", Note: "health"}},
		}))
		if !ok {
			t.Fatal("no error of Connect's")
		}
		var found *bursarv1.InsufficientResources
		for _, detail := range err.Details() {
			if value, err := detail.Value(); err == nil {
				found, _ = value.(*bursarv1.InsufficientResources)
			}
		}
		if err.Code() != want || len(found.GetShortfalls()) != 1 || found.GetShortfalls()[0].GetNote() != "health" {
			t.Errorf("returning %v: %v, %v: want %v with the shortfall", returning, err, found, want)
		}
	}
}

// A batch is many callers'. Why the store refused it is no answer to any of them: it may be about
// what another one asked for.
func TestACommitThatFailsNamesNobodysField(t *testing.T) {
	wide := resource.Vector{}
	for i := range resource.MaxCustom + 1 {
		wide = wide.With(fmt.Sprintf("c%d", i), 0)
	}
	_, refused := store.AppendAllocation(nil, &ledger.Allocation{ID: 1, State: ledger.Active, Entitled: resource.NewResource(wide)})
	for _, cause := range []error{refused, wire.FieldError("wait", "-1s", "0 or more"), &ledger.NotFoundError{What: "host", ID: "h9"}, store.ErrNotFound} {
		err, ok := errors.AsType[*connect.Error](rpcError(&commit.Error{Err: cause}))
		if !ok || err.Code() != connect.CodeUnavailable || len(err.Details()) != 0 {
			t.Errorf("%v: got %v with %d details, want %v with none", cause, err.Code(), len(err.Details()), connect.CodeUnavailable)
		}
	}
	if text := (&commit.Error{Err: refused}).Error(); strings.Contains(text, "custom") || strings.Contains(text, ledger.ID(1).String()) {
		t.Errorf("%q tells of another caller's row", text)
	}
}

// Who has too much is told when to try again, in the detail and in the header that clients obey.
func TestWhoHasTooMuchIsToldWhenToTryAgain(t *testing.T) {
	for err, want := range map[error]time.Duration{
		commit.ErrBusy:                          200 * time.Millisecond,
		&ledger.LiveFullError{Caller: "alice"}:  30 * time.Second,
		&ledger.TooMuchError{Caller: "alice"}:   30 * time.Second,
		&commit.Error{Err: commit.ErrBusy}:      0,
		&ledger.NotFoundError{What: "host"}:     0,
		fmt.Errorf("audit: %w", commit.ErrBusy): 200 * time.Millisecond,
	} {
		answer, ok := errors.AsType[*connect.Error](rpcError(err))
		if !ok {
			t.Fatal("no error of Connect's")
		}
		header := answer.Meta().Get("Retry-After")
		if got := admission.TryAgain(answer); got != want || (header != "") != (want > 0) {
			t.Errorf("%v: again in %s, Retry-After %q; want %s", err, got, header, want)
		}
		if want > 0 && answer.Code() != connect.CodeResourceExhausted {
			t.Errorf("%v: %s", err, answer.Code())
		}
	}
}

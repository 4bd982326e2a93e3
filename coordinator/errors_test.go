package coordinator

import (
	"errors"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// It is too early to say no, and the agent of the host that is waited for must be able to see that it is its own.
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

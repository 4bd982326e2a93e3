// Package refusal makes the errors with which the agent's local API refuses a call.
package refusal

import (
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Invalid refuses a request for one of its fields.
func Invalid(field, value, want string) error {
	return WithDetail(connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%s: %q: want %s", field, value, want)),
		&bursarv1.InvalidField{Field: field, Value: value, Want: want})
}

// WithDetail adds a message of the contract to an error.
func WithDetail(err *connect.Error, message proto.Message) error {
	// Our own messages always marshal.
	if detail, detailErr := connect.NewErrorDetail(message); detailErr == nil {
		err.AddDetail(detail)
	}
	return err
}

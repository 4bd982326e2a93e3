package callers

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Start is served by coordinators alone: an agent vouches for nobody who starts engines elsewhere.
func (s engineService) Start(context.Context, *bursarv1.StartRequest) (*bursarv1.StartResponse, error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("an agent starts engines of its own host alone: want Launch, or Start of a coordinator, with a token or a certificate"))
}

// OrderLogs is between coordinators.
func (engineService) OrderLogs(context.Context, *bursarv1.OrderLogsRequest) (*bursarv1.OrderLogsResponse, error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("want Logs: OrderLogs is a call between coordinators"))
}

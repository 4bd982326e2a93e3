package coordinator

import (
	"context"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func (*engineService) Signal(context.Context, *bursarv1.SignalRequest) (*bursarv1.SignalResponse, error) {
	return nil, connect.NewError(connect.CodeUnimplemented, nil)
}

package coordinator

import (
	"context"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func (*engineService) Logs(context.Context, *bursarv1.LogsRequest, *connect.ServerStream[bursarv1.LogsResponse]) error {
	return connect.NewError(connect.CodeUnimplemented, nil)
}

func (*engineService) OrderLogs(context.Context, *bursarv1.OrderLogsRequest) (*bursarv1.OrderLogsResponse, error) {
	return nil, connect.NewError(connect.CodeUnimplemented, nil)
}

func (*hostService) SendOutput(context.Context, *connect.ClientStream[bursarv1.SendOutputRequest]) (*bursarv1.SendOutputResponse, error) {
	return nil, connect.NewError(connect.CodeUnimplemented, nil)
}

package forward

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

type (
	// unaryCall makes a unary call, with additional headers.
	unaryCall func(ctx context.Context, message any, header http.Header) (connect.AnyResponse, error)
	// streamCall makes a server-streaming call for a caller's connection.
	streamCall func(ctx context.Context, conn connect.StreamingHandlerConn, header http.Header) error
)

// unary makes the client of a unary procedure.
func unary[Q, R any](client connect.HTTPClient, url string, options ...connect.ClientOption) unaryCall {
	c := connect.NewClient[Q, R](client, url, options...)
	return func(ctx context.Context, message any, header http.Header) (connect.AnyResponse, error) {
		request, ok := message.(*Q)
		if !ok {
			return nil, fmt.Errorf("a request of type %T", message)
		}
		req := connect.NewRequest(request)
		maps.Copy(req.Header(), header)
		res, err := c.CallUnary(ctx, req)
		if err != nil {
			return nil, err
		}
		// the headers are about the connection between the coordinators
		return connect.NewResponse(res.Msg), nil
	}
}

// streaming makes the client of a server-streaming procedure.
func streaming[Q, R any](client connect.HTTPClient, url string, options ...connect.ClientOption) streamCall {
	c := connect.NewClient[Q, R](client, url, options...)
	return func(ctx context.Context, conn connect.StreamingHandlerConn, header http.Header) error {
		request := new(Q)
		if err := conn.Receive(request); err != nil {
			return err //nolint:wrapcheck // it has its code
		}
		req := connect.NewRequest(request)
		maps.Copy(req.Header(), header)
		stream, err := c.CallServerStream(ctx, req)
		if err != nil {
			return err
		}
		for stream.Receive() {
			if err := conn.Send(stream.Msg()); err != nil {
				return errors.Join(err, stream.Close())
			}
		}
		return errors.Join(stream.Err(), stream.Close())
	}
}

// isOwn reports whether each coordinator serves a procedure itself, even if another one leads: an
// agent sends output to the coordinator that the reader has called.
func isOwn(procedure string) bool {
	return procedure == bursarv1connect.EngineServiceLogsProcedure || procedure == bursarv1connect.HostServiceSendOutputProcedure
}

// isBetween reports whether only coordinators make a call, by Ask. It is not forwarded, because it
// would look like a call of this coordinator.
func isBetween(procedure string) bool {
	return procedure == bursarv1connect.EngineServiceOrderLogsProcedure
}

// isOnce reports whether a call must not be made a second time if the first may have had its
// effect: an engine that gets SIGHUP or SIGUSR1 twice does something twice.
func isOnce(procedure string) bool {
	return procedure == bursarv1connect.EngineServiceSignalProcedure
}

// isNew reports whether the previous version lacks a procedure: whether it is not in
// proto/baseline.binpb.
func isNew(procedure string) bool {
	switch procedure {
	case bursarv1connect.AllocationServiceAmendProcedure, bursarv1connect.AllocationServiceAwaitProcedure, bursarv1connect.AllocationServiceLeaveProcedure, bursarv1connect.HostServiceAcceptProcedure,
		bursarv1connect.HostServiceAttachProcedure, bursarv1connect.HostServiceAnswerProcedure, bursarv1connect.EngineServiceStartProcedure, bursarv1connect.EngineServiceWaitProcedure, bursarv1connect.EngineServiceSignalProcedure,
		bursarv1connect.EngineServiceLogsProcedure, bursarv1connect.EngineServiceOrderLogsProcedure, bursarv1connect.HostServiceSendOutputProcedure:
		return true
	}
	return false
}

// unaryProcedures returns the unary procedures of the contract, each with the maker of its client.
func unaryProcedures() map[string]func(connect.HTTPClient, string, ...connect.ClientOption) unaryCall {
	return map[string]func(connect.HTTPClient, string, ...connect.ClientOption) unaryCall{
		bursarv1connect.AllocationServiceAllocateProcedure: unary[bursarv1.AllocateRequest, bursarv1.AllocateResponse],
		bursarv1connect.AllocationServiceConfirmProcedure:  unary[bursarv1.ConfirmRequest, bursarv1.ConfirmResponse],
		bursarv1connect.AllocationServiceReleaseProcedure:  unary[bursarv1.ReleaseRequest, bursarv1.ReleaseResponse],
		bursarv1connect.AllocationServiceCancelProcedure:   unary[bursarv1.CancelRequest, bursarv1.CancelResponse],
		bursarv1connect.AllocationServiceAmendProcedure:    unary[bursarv1.AmendRequest, bursarv1.AmendResponse],
		bursarv1connect.AllocationServiceRenewProcedure:    unary[bursarv1.RenewRequest, bursarv1.RenewResponse],
		bursarv1connect.AllocationServiceResizeProcedure:   unary[bursarv1.ResizeRequest, bursarv1.ResizeResponse],
		bursarv1connect.AllocationServiceStopProcedure:     unary[bursarv1.StopRequest, bursarv1.StopResponse],
		bursarv1connect.AllocationServiceGetProcedure:      unary[bursarv1.AllocationServiceGetRequest, bursarv1.AllocationServiceGetResponse],
		bursarv1connect.AllocationServiceListProcedure:     unary[bursarv1.AllocationServiceListRequest, bursarv1.AllocationServiceListResponse],
		bursarv1connect.AllocationServiceExplainProcedure:  unary[bursarv1.ExplainRequest, bursarv1.ExplainResponse],

		bursarv1connect.AllocationServiceLeaveProcedure: unary[bursarv1.LeaveRequest, bursarv1.LeaveResponse],

		bursarv1connect.HostServiceRegisterProcedure:   unary[bursarv1.RegisterRequest, bursarv1.RegisterResponse],
		bursarv1connect.HostServiceSyncProcedure:       unary[bursarv1.SyncRequest, bursarv1.SyncResponse],
		bursarv1connect.HostServiceDeregisterProcedure: unary[bursarv1.DeregisterRequest, bursarv1.DeregisterResponse],
		bursarv1connect.HostServiceGetProcedure:        unary[bursarv1.HostServiceGetRequest, bursarv1.HostServiceGetResponse],
		bursarv1connect.HostServiceListProcedure:       unary[bursarv1.HostServiceListRequest, bursarv1.HostServiceListResponse],
		bursarv1connect.HostServiceCordonProcedure:     unary[bursarv1.CordonRequest, bursarv1.CordonResponse],
		bursarv1connect.HostServiceUncordonProcedure:   unary[bursarv1.UncordonRequest, bursarv1.UncordonResponse],
		bursarv1connect.HostServiceDrainProcedure:      unary[bursarv1.DrainRequest, bursarv1.DrainResponse],
		bursarv1connect.HostServiceAcceptProcedure:     unary[bursarv1.AcceptRequest, bursarv1.AcceptResponse],
		bursarv1connect.HostServiceAnswerProcedure:     unary[bursarv1.AnswerRequest, bursarv1.AnswerResponse],

		bursarv1connect.EngineServiceStartProcedure:  unary[bursarv1.StartRequest, bursarv1.StartResponse],
		bursarv1connect.EngineServiceWaitProcedure:   unary[bursarv1.WaitRequest, bursarv1.WaitResponse],
		bursarv1connect.EngineServiceSignalProcedure: unary[bursarv1.SignalRequest, bursarv1.SignalResponse],

		bursarv1connect.EngineServiceOrderLogsProcedure: unary[bursarv1.OrderLogsRequest, bursarv1.OrderLogsResponse],

		bursarv1connect.QuotaServicePutProcedure:    unary[bursarv1.PutRequest, bursarv1.PutResponse],
		bursarv1connect.QuotaServiceApplyProcedure:  unary[bursarv1.ApplyRequest, bursarv1.ApplyResponse],
		bursarv1connect.QuotaServiceDeleteProcedure: unary[bursarv1.DeleteRequest, bursarv1.DeleteResponse],
		bursarv1connect.QuotaServiceGetProcedure:    unary[bursarv1.QuotaServiceGetRequest, bursarv1.QuotaServiceGetResponse],
		bursarv1connect.QuotaServiceListProcedure:   unary[bursarv1.QuotaServiceListRequest, bursarv1.QuotaServiceListResponse],

		bursarv1connect.QueueServiceListProcedure:           unary[bursarv1.QueueServiceListRequest, bursarv1.QueueServiceListResponse],
		bursarv1connect.QueueServiceGetProcedure:            unary[bursarv1.QueueServiceGetRequest, bursarv1.QueueServiceGetResponse],
		bursarv1connect.QueueServicePutProviderProcedure:    unary[bursarv1.PutProviderRequest, bursarv1.PutProviderResponse],
		bursarv1connect.QueueServiceDeleteProviderProcedure: unary[bursarv1.DeleteProviderRequest, bursarv1.DeleteProviderResponse],
		bursarv1connect.QueueServiceCheckProviderProcedure:  unary[bursarv1.CheckProviderRequest, bursarv1.CheckProviderResponse],
		bursarv1connect.QueueServiceListProvidersProcedure:  unary[bursarv1.ListProvidersRequest, bursarv1.ListProvidersResponse],

		bursarv1connect.ClusterServiceStatusProcedure: unary[bursarv1.StatusRequest, bursarv1.StatusResponse],
		bursarv1connect.ClusterServiceAuditProcedure:  unary[bursarv1.AuditRequest, bursarv1.AuditResponse],
	}
}

// streamProcedures returns the server-streaming procedures.
func streamProcedures() map[string]func(connect.HTTPClient, string, ...connect.ClientOption) streamCall {
	return map[string]func(connect.HTTPClient, string, ...connect.ClientOption) streamCall{
		bursarv1connect.HostServiceAttachProcedure:      streaming[bursarv1.AttachRequest, bursarv1.AttachResponse],
		bursarv1connect.AllocationServiceAwaitProcedure: streaming[bursarv1.AwaitRequest, bursarv1.AwaitResponse],
		bursarv1connect.AllocationServiceWatchProcedure: streaming[bursarv1.AllocationServiceWatchRequest, bursarv1.AllocationServiceWatchResponse],
		bursarv1connect.ClusterServiceWatchProcedure:    streaming[bursarv1.ClusterServiceWatchRequest, bursarv1.ClusterServiceWatchResponse],
	}
}

package auth

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// AuditorOptions configure an Auditor.
type AuditorOptions struct {
	// Audit records the calls.
	Audit *AuditLog
	// Timeouts define how often the credentials of a stream's caller are checked. Each stream reads
	// them when it begins.
	Timeouts *Timeouts
	// Code adds the code and the details for callers to an error. It returns an error that has them
	// unchanged.
	Code func(error) error
	// Advise adds advice to a refusal that has none. Nil stays nil.
	Advise func(error) error
}

// Auditor checks messages and answers, which the authenticator does not see. It refuses calls
// through a host's agent that are about another host, records calls, and removes from answers and
// errors the data that the caller may not see. All answers pass it, also those of a leader.
//
// It is the outermost interceptor of handlers but for the one that maps errors. Any goroutine may
// use it.
type Auditor struct {
	audit    *AuditLog
	time     *Timeouts
	code     func(error) error
	advise   func(error) error
	redactor *redactor
}

// NewAuditor returns an auditor.
func NewAuditor(o AuditorOptions) *Auditor {
	return &Auditor{audit: o.Audit, time: o.Timeouts, code: o.Code, advise: o.Advise, redactor: newRedactor(o.Code)}
}

var _ connect.Interceptor = (*Auditor)(nil)

// WrapUnary implements connect.Interceptor.
func (a *Auditor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		c := CallerOf(ctx)
		err := checkOwnHost(c.Actor, req.Any())
		if message, ok := req.Any().(proto.Message); ok {
			c.Procedure, c.Message = req.Spec().Procedure, message
		}
		var res connect.AnyResponse
		if err == nil {
			res, err = next(ctx, req)
		}
		if err == nil {
			a.redactor.redact(c.Actor, res.Any())
		}
		err = a.redactor.redactError(c.Actor, a.advise(err))
		a.audit.recordAnswer(effective(req.Spec().Procedure, err, res), c, req.Any(), a.code(err))
		return res, err
	}
}

// effective returns the procedure to record for a call: a Release of an engine that an agent
// launched is a Stop.
func effective(procedure string, err error, res connect.AnyResponse) string {
	if procedure != bursarv1connect.AllocationServiceReleaseProcedure || err != nil {
		return procedure
	}
	if released, ok := res.Any().(*bursarv1.ReleaseResponse); ok && released.GetAllocation().GetStopping() {
		return bursarv1connect.AllocationServiceStopProcedure
	}
	return procedure
}

// WrapStreamingHandler implements connect.Interceptor.
func (a *Auditor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		c := CallerOf(ctx)
		ctx, stop := a.watchRights(ctx, c)
		stream := newAuditedStream(conn, c.Actor, a.redactor, a.code)
		err := a.redactor.redactError(c.Actor, a.advise(stop(next(ctx, stream))))
		a.audit.recordAnswer(conn.Spec().Procedure, c, stream.first, a.code(err))
		return err
	}
}

// WrapStreamingClient implements connect.Interceptor; this is a server.
func (a *Auditor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// auditedStream checks the requests and answers of a stream.
type auditedStream struct {
	connect.StreamingHandlerConn

	actor    identity.Actor
	redactor *redactor
	code     func(error) error
	shared   sharing
	first    any // message that was received: what the call is about; nil: none was
}

func newAuditedStream(conn connect.StreamingHandlerConn, actor identity.Actor, r *redactor, code func(error) error) *auditedStream {
	return &auditedStream{conn, actor, r, code, newSharing(r, actor), nil}
}

// Send implements connect.StreamingHandlerConn.
func (s *auditedStream) Send(message any) error {
	if answer, ok := message.(SharedAnswer); ok {
		message = s.shared.view(answer)
	} else {
		s.redactor.redact(s.actor, message)
	}
	return s.StreamingHandlerConn.Send(message) //nolint:wrapcheck // it has its code
}

// Receive implements connect.StreamingHandlerConn.
func (s *auditedStream) Receive(message any) error {
	if err := s.StreamingHandlerConn.Receive(message); err != nil {
		return err //nolint:wrapcheck // io.EOF must stay as it is
	}
	if s.first == nil {
		s.first = message
		if output, ok := message.(*bursarv1.SendOutputRequest); ok { // without the ticket and the output
			s.first = &bursarv1.SendOutputRequest{HostId: output.GetHostId()}
		}
	}
	return s.code(checkOwnHost(s.actor, message))
}

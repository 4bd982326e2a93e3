package auth

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// AuditorOptions are what an Auditor needs.
type AuditorOptions struct {
	// Audit takes the records.
	Audit *AuditLog
	// Timeouts say how often the credentials of a stream's caller are looked at. They are read as
	// each stream begins.
	Timeouts *Timeouts
	// Code gives an error the code and the details that callers see. It returns an error that has
	// them as it is.
	Code func(error) error
	// Advise adds to a refusal what to do about it, if its words do not say it. Nil stays nil.
	Advise func(error) error
}

// Auditor checks what the authenticator does not see: messages and answers. A call through a
// host's agent must be about that host, some calls are written down, and neither an answer nor an
// error may show what its caller may not see. All answers pass it, those of a leader too.
//
// It is an interceptor of handlers, outside of all others but the one that maps errors. Any
// goroutine may use it.
type Auditor struct {
	audit    *AuditLog
	time     *Timeouts
	code     func(error) error
	advise   func(error) error
	redactor *redactor
}

// NewAuditor makes one.
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

// effective is the procedure that a call amounted to: a Release of an engine that an agent launched
// is a Stop.
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

// auditedStream is a stream whose requests and answers are checked.
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
	}
	return s.code(checkOwnHost(s.actor, message))
}

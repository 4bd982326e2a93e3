package client

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"
)

// stream is the connection of one stream.
type stream struct {
	connect.StreamingClientConn

	ctx         context.Context //nolint:containedctx // of the stream
	router      *router
	destination *destination
	refused     error // before anything was sent
}

// Send sends the request.
func (s *stream) Send(msg any) error {
	if s.refused != nil {
		return s.refused
	}
	return s.StreamingClientConn.Send(msg)
}

// Receive returns the next message. If the stream ends, the next stream goes to another
// coordinator: a stream that the client does not end lasts as long as its server.
func (s *stream) Receive(msg any) error {
	if s.refused != nil {
		return s.refused
	}
	err := s.StreamingClientConn.Receive(msg)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		s.router.attemptEnded(s.destination, connect.NewError(connect.CodeUnavailable, err))
	default:
		err = brokenIsUnavailable(s.ctx, err)
		s.router.attemptEnded(s.destination, err)
	}
	return err
}

package admission

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
)

// Requests is told when a connection is worked on for its next request, before there is one: to
// make the connection secure, and to read and understand a header, is most of the work for a small
// request. The goroutine that serves the connection calls it.
type Requests interface {
	// Begin is called when something has come. It is not read on until Begin returns.
	Begin()
	// End is called before the connection waits for more, when an answer is sent, and when the
	// connection is closed, whether or not Begin was called before.
	End()
}

// heading is what a Connection is told of its requests with.
type heading struct{ Requests }

// Tell sets who is told of the requests of a connection; nil: nobody. Over HTTP/2, where many are
// under way at a time, that should be nobody. It returns false if the connection of ctx is not
// counted.
func (c *Connections) Tell(ctx context.Context, requests Requests) bool {
	conn, ok := ctx.Value(connectionKey{}).(*Connection)
	if !ok {
		return false
	}
	var told *heading
	if requests != nil {
		told = &heading{requests}
	}
	conn.told.Store(told)
	return true
}

// Told returns who is told of the requests of a connection; nil: nobody.
func (c *Connections) Told(ctx context.Context) Requests {
	if conn, ok := ctx.Value(connectionKey{}).(*Connection); ok {
		if told := conn.told.Load(); told != nil {
			return told.Requests
		}
	}
	return nil
}

// State is for http.Server.ConnState.
func (c *Connections) State(conn net.Conn, state http.ConnState) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	counted, ok := conn.(*Connection)
	if !ok || state != http.StateIdle && state != http.StateClosed {
		return
	}
	if told := counted.told.Load(); told != nil {
		told.End()
	}
	if counted.begun.CompareAndSwap(true, false) {
		counted.calls.Add(-1)
	}
	counted.answering.Store(state == http.StateClosed)
}

// Read reads from the connection.
func (conn *Connection) Read(p []byte) (int, error) {
	told := conn.told.Load()
	if told == nil || conn.answering.Load() {
		return conn.Conn.Read(p) //nolint:wrapcheck // as the connection says it
	}
	told.End()
	n, err := conn.Conn.Read(p)
	if n > 0 {
		if conn.begun.CompareAndSwap(false, true) {
			conn.calls.Add(1) // it is not idle
		}
		told.Begin()
	}
	return n, err //nolint:wrapcheck // as the connection says it
}

package admission

import (
	"context"
	"net"
	"net/http"
)

// Work is told when a connection of HTTP/1 is worked on for one request after the other, if all are
// of one caller. To read and understand a header is half of the work for a small request, and comes
// before its handler.
type Work interface {
	// Begin is called when the first bytes of a request have come. They are not looked at until it
	// returns. It may be called for a request that a handler has already: if requests come before
	// the ones before them were answered.
	Begin()
	// End is called when the answer is sent, and when the connection is closed, whether or not
	// Begin was called.
	End()
}

// KeepWork sets what is told of the end of a request, and of those that come after it on its
// connection. It returns false if the connection is not counted. Only handlers of HTTP/1 may call
// it: over HTTP/2 a connection has many requests at a time.
func (c *Connections) KeepWork(ctx context.Context, work Work) bool {
	conn, ok := ctx.Value(connectionKey{}).(*Connection)
	if ok {
		conn.work.Store(&work)
	}
	return ok
}

// Work returns what KeepWork has set; nil: nothing.
func (c *Connections) Work(ctx context.Context) Work {
	if conn, ok := ctx.Value(connectionKey{}).(*Connection); ok {
		if work := conn.work.Load(); work != nil {
			return *work
		}
	}
	return nil
}

// State is for http.Server.ConnState.
func (*Connections) State(conn net.Conn, state http.ConnState) {
	c, ok := counted(conn)
	if !ok {
		return
	}
	work := c.work.Load()
	if work == nil {
		return
	}
	c.between.Store(false)
	if state != http.StateIdle && state != http.StateClosed {
		return
	}
	(*work).End()
	if c.begun.CompareAndSwap(true, false) {
		c.calls.Add(-1)
	}
	c.between.Store(state == http.StateIdle)
}

// beginWork is called when bytes have come.
func (conn *Connection) beginWork() {
	if conn.between.CompareAndSwap(true, false) {
		conn.begun.Store(true)
		conn.calls.Add(1) // it is not idle
		(*conn.work.Load()).Begin()
	}
}

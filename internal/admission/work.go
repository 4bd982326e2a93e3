package admission

import (
	"context"
	"net"
	"net/http"
)

// Work measures the work for the requests of one HTTP/1 connection, which come one after the other
// and from one caller. To read and parse a header is half of the work for a small request, and
// happens before the handler runs.
type Work interface {
	// Begin is called when the first bytes of a request have come, before they are parsed. If a
	// client sends requests before earlier ones were answered, Begin may be called for a request
	// that a handler has already.
	Begin()
	// End is called when the answer is sent, and when the connection is closed, whether or not
	// Begin was called.
	End()
}

// KeepWork sets the Work of the end of a request, and of the later requests on its connection. It
// returns false if the connection is not counted. Only HTTP/1 handlers may call it: an HTTP/2
// connection has many requests at a time.
func (c *Connections) KeepWork(ctx context.Context, work Work) bool {
	conn, ok := ctx.Value(connectionKey{}).(*Connection)
	if ok {
		conn.work.Store(&work)
	}
	return ok
}

// Work returns the Work that KeepWork has set; nil if there is none.
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
		conn.calls.Add(1) // the connection is not idle
		(*conn.work.Load()).Begin()
	}
}

package admission

import (
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// ConnectionLimits bound the connections of a server. Unknown, Address and Nameless are for a
// server that learns the caller's identity from the requests.
type ConnectionLimits struct {
	// Unknown is how many connections without an identity yet may be open, Address how many of
	// these one remote address may have. Beyond that, the oldest of them is closed for the new one,
	// even if it is busy: so a caller can always connect to show its identity.
	Unknown, Address int
	// Known is how many connections of callers with an identity may be open, Caller how many one
	// caller may have.
	Known, Caller int
	// Streams is how many requests one HTTP/2 connection may have in flight, reset ones included.
	// The server does not read the next one before one of them has ended. 0: no bound.
	Streams int
	// KnownOf and CallerOf are the limit of descriptors of this process, if it lowers Known and
	// Caller. Refusals and the log then name it. 0: it does not.
	KnownOf, CallerOf int
	// First is how long a connection may take to send its first request.
	First time.Duration
	// Nameless bounds the time from a request to its answer on a connection without an identity.
	Nameless time.Duration
}

// ConnectionOptions are the callbacks of Connections.
type ConnectionOptions struct {
	// OwnerOf returns the account of a connection that has no identity yet. Without a result the
	// connection counts on its remote address. It is called before the next connection is accepted.
	// Nil: there is never a result.
	OwnerOf func(net.Conn) Caller
	// Refused is called for each connection that is refused, or closed in favor of another one.
	Refused func()
	// Log gets a line about refusals, once a minute for each caller.
	Log *slog.Logger
}

// Connections counts the connections of a server, and closes connections to make room for others.
// Any goroutine may call it.
type Connections struct {
	limits  ConnectionLimits
	options ConnectionOptions
	turns   *turns

	mu         sync.Mutex
	unknown    group      // guarded by mu; by presumed owner
	known      group      // guarded by mu; by caller
	refusalLog refusalLog // guarded by mu
}

// group holds connections by owner, each list from the oldest to the newest.
type group struct {
	of    map[string]*list.List // of *Connection
	count int
}

// Connection is one connection that Connections counts.
type Connection struct {
	net.Conn

	owner      *Connections
	first      *time.Timer            // set under the lock of owner, before anything else has the connection
	calls      atomic.Int64           // in flight
	identified atomic.Bool            // its caller is known
	work       atomic.Pointer[Work]   // nil: there is no Work for its requests
	between    atomic.Bool            // the next bytes begin a request, and work must be called
	begun      atomic.Bool            // these bytes have come, and count as a call
	counts     atomic.Pointer[Caller] // caller, for goroutines without the lock
	streams

	// Guarded by the lock of owner:
	caller  Caller
	element *list.Element // nil: it is closed
}

// NewConnections returns a Connections without connections.
func NewConnections(limits ConnectionLimits, options ConnectionOptions) *Connections {
	return &Connections{
		limits: limits, options: options, turns: newTurns(), refusalLog: newRefusalLog(),
		unknown: group{of: make(map[string]*list.List)}, known: group{of: make(map[string]*list.List)},
	}
}

// SetCaller replaces the limit of connections of one caller.
func (c *Connections) SetCaller(limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits.Caller = limit
}

// Listen counts the connections that a listener accepts.
func (c *Connections) Listen(l net.Listener) net.Listener { return &countingListener{l, c} }

type countingListener struct {
	net.Listener

	connections *Connections
}

// Accept returns the next connection.
func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // the server decides on it
	}
	return l.connections.add(conn), nil
}

// ownerOf returns the account of a connection that has not shown an identity yet.
func (c *Connections) ownerOf(conn net.Conn) Caller {
	if c.options.OwnerOf != nil {
		if caller := c.options.OwnerOf(conn); caller.counted() {
			return caller
		}
	}
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return Caller{ID: "network/" + conn.RemoteAddr().Network(), Name: conn.RemoteAddr().Network()}
	}
	return OfAddress(at.Addr())
}

// OfAddress returns the account of a caller that shows only an address.
func OfAddress(address netip.Addr) Caller {
	address = address.Unmap()
	name := address.String()
	switch {
	case address.IsLoopback(): // a caller with one of its addresses has them all
		name = "loopback"
	case address.Is6(): // a caller with one address has the network
		if prefix, err := address.Prefix(64); err == nil {
			name = prefix.String()
		}
	}
	return Caller{ID: "address/" + name, Name: name}
}

func (c *Connections) connection(conn net.Conn, caller Caller) *Connection {
	made := &Connection{Conn: conn, owner: c, caller: caller, streams: newStreams(c.turns)}
	made.counts.Store(&caller)
	made.gate.endIfGone = made.endIfGone
	return made
}

func (c *Connections) add(conn net.Conn) *Connection {
	added := c.connection(conn, c.ownerOf(conn))
	c.mu.Lock()
	added.first = time.AfterFunc(c.limits.First, func() { _ = added.Close() })
	var gone *Connection
	if over := c.unknown.excess(added.caller, maximum{limit: c.limits.Address}, maximum{limit: c.limits.Unknown}); over != nil {
		gone = over.oldest()
		c.unknown.remove(gone)
		c.refusedLocked(gone.caller, over)
	}
	c.unknown.add(added)
	c.mu.Unlock()
	gone.end()
	return added
}

// refusedLocked counts and logs a connection that is closed or refused.
func (c *Connections) refusedLocked(caller Caller, because *excess) {
	c.options.Refused()
	if !c.refusalLog.shouldLog(caller.ID, time.Now()) {
		return
	}
	log := c.options.Log
	if because.descriptors > 0 {
		log = log.With("descriptors", because.descriptors)
	}
	log.Warn("connections of a caller are closed or refused, because there are too many", "caller", caller.Name, "who", because.who, "limit", because.limit)
}

// end closes a connection that is not counted any more. A nil connection is allowed.
func (conn *Connection) end() {
	if conn != nil {
		_ = conn.Close()
	}
}

func (g *group) add(conn *Connection) {
	own := g.of[conn.caller.ID]
	if own == nil {
		own = list.New()
		g.of[conn.caller.ID] = own
	}
	conn.element = own.PushBack(conn)
	g.count++
}

func (g *group) remove(conn *Connection) {
	own := g.of[conn.caller.ID]
	own.Remove(conn.element)
	conn.element = nil
	g.count--
	if own.Len() == 0 {
		delete(g.of, conn.caller.ID)
	}
}

// excess holds connections of one caller, one of which must go before there can be another one.
type excess struct {
	*list.List

	who   string // the caller, or all callers, of the limit
	limit int
	// other means that they belong to another caller. That caller has so many more that even a
	// connection with a call in flight may be closed.
	other bool
	// descriptors is the limit of descriptors of this process, if it lowers the limit; 0: it does
	// not
	descriptors int
}

// maximum is a limit of connections, and the limit of descriptors if that lowers it.
type maximum struct{ limit, of int }

// excess returns the connections, one of which must go before the caller can have another one; nil
// if none must. Once all callers together have too many, one of the caller's own must go if no
// other caller has more. So callers with few connections keep theirs.
func (g *group) excess(caller Caller, one, all maximum) *excess {
	own, have := g.of[caller.ID], 0
	if own != nil {
		have = own.Len()
	}
	if have >= one.limit {
		return &excess{List: own, who: caller.Name, limit: one.limit, descriptors: one.of}
	}
	if g.count < all.limit {
		return nil
	}
	longest := own
	for _, list := range g.of {
		if longest == nil || list.Len() > longest.Len() {
			longest = list
		}
	}
	more := longest.Len() > have+1
	if own != nil && !more {
		longest = own
	}
	return &excess{List: longest, who: "all callers together", limit: all.limit, descriptors: all.of, other: more}
}

func (c *excess) oldest() *Connection {
	conn, _ := c.Front().Value.(*Connection)
	return conn
}

// idle returns the oldest connection without a call in flight; nil if there is none.
func (c *excess) idle() *Connection {
	for element := c.Front(); element != nil; element = element.Next() {
		if conn, _ := element.Value.(*Connection); conn.calls.Load() == 0 {
			return conn
		}
	}
	return nil
}

// Close closes the connection and stops counting it.
func (conn *Connection) Close() error {
	c := conn.owner
	c.mu.Lock()
	conn.first.Stop()
	if conn.element != nil {
		if conn.identified.Load() {
			c.known.remove(conn)
		} else {
			c.unknown.remove(conn)
		}
	}
	c.mu.Unlock()
	conn.gate.close()
	return conn.Conn.Close() //nolint:wrapcheck // as the connection would say it
}

// NetConn returns the underlying connection.
func (conn *Connection) NetConn() net.Conn { return conn.Conn }

type connectionKey struct{}

// Context is for http.Server.ConnContext: it stores the connection in the context of its requests.
func (c *Connections) Context(ctx context.Context, conn net.Conn) context.Context {
	if counted, ok := counted(conn); ok {
		return context.WithValue(ctx, connectionKey{}, counted)
	}
	return ctx
}

// counted returns the counted connection below a server's connection.
func counted(conn net.Conn) (c *Connection, ok bool) {
	if secured, ok := conn.(*securedConn); ok {
		return secured.counted, true
	}
	c, ok = conn.(*Connection)
	return c, ok
}

// Begin counts a request of a connection. It returns the function to call when the request was
// answered. On a connection without an identity, the request must be answered within
// ConnectionLimits.Nameless; then the connection is closed.
func (c *Connections) Begin(ctx context.Context) (ended func()) {
	conn, ok := ctx.Value(connectionKey{}).(*Connection)
	if !ok {
		return func() {}
	}
	conn.calls.Add(1)
	conn.first.Stop()
	conn.between.Store(false)
	if conn.identified.Load() {
		return conn.callEnded
	}
	late := time.AfterFunc(c.limits.Nameless, func() {
		if !conn.identified.Load() {
			_ = conn.Close()
		}
	})
	return func() {
		late.Stop()
		conn.callEnded()
	}
}

// callEnded counts the end of a call of the connection.
func (conn *Connection) callEnded() {
	conn.calls.Add(-1)
	if conn.crowded.Load() {
		tell(conn.room)
	}
}

// Identify sets the owner of the connection of a request. A connection keeps its first owner. If
// the caller now has one too many, its oldest idle connection is closed. If all callers have one
// too many, one of the caller with the most is closed, if need be one with a call in flight. An
// error refuses the request: the caller has too many connections, and a call in flight on each.
func (c *Connections) Identify(ctx context.Context, caller Caller) error {
	conn, ok := ctx.Value(connectionKey{}).(*Connection)
	if !ok || !caller.counted() || conn.identified.Load() {
		return nil
	}
	c.mu.Lock()
	// the connection is closed, or another of its requests was faster
	if conn.element == nil || conn.identified.Load() {
		c.mu.Unlock()
		return nil
	}
	gone, err := c.makeRoomLocked(caller)
	if err == nil {
		c.unknown.remove(conn)
		conn.caller = caller
		conn.counts.Store(&caller)
		conn.identified.Store(true)
		c.known.add(conn)
	}
	c.mu.Unlock()
	gone.end()
	return err
}

// Admit counts a connection whose owner is known at once. It makes room as Identify does. Nil: the
// connection is refused.
func (c *Connections) Admit(conn net.Conn, caller Caller) *Connection {
	added := c.connection(conn, caller)
	added.identified.Store(true)
	c.mu.Lock()
	var gone *Connection
	if caller.counted() {
		var err error
		if gone, err = c.makeRoomLocked(caller); err != nil {
			c.mu.Unlock()
			return nil
		}
		c.known.add(added)
	}
	added.first = time.AfterFunc(c.limits.First, func() { _ = added.Close() })
	c.mu.Unlock()
	gone.end()
	return added
}

// makeRoomLocked removes a connection if the caller needs room for one more, and returns it; nil if
// there was room.
func (c *Connections) makeRoomLocked(caller Caller) (gone *Connection, err error) {
	over := c.known.excess(caller, maximum{c.limits.Caller, c.limits.CallerOf}, maximum{c.limits.Known, c.limits.KnownOf})
	if over == nil {
		return gone, nil
	}
	gone = over.idle()
	if gone == nil && over.other {
		gone = over.oldest()
	}
	if gone == nil {
		c.refusedLocked(caller, over)
		const again = 5 * time.Second
		why := ""
		if over.descriptors > 0 {
			why = fmt.Sprintf(" (this process may have %d descriptors: LimitNOFILE= or ulimit -n)", over.descriptors)
		}
		return nil, Refusal(fmt.Errorf("too many requests: %s may have %d connections here%s, and each has a request under way: try again in %s",
			over.who, over.limit, why, again), again)
	}
	c.known.remove(gone)
	c.refusedLocked(gone.caller, over)
	return gone, nil
}

// Owner returns the account of the connection of a request; the zero value if the request has no
// counted connection.
func (c *Connections) Owner(ctx context.Context) Caller {
	conn, ok := ctx.Value(connectionKey{}).(*Connection)
	if !ok {
		return Caller{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return conn.caller
}

// Cut closes the connection of a request.
func (c *Connections) Cut(ctx context.Context) {
	if conn, ok := ctx.Value(connectionKey{}).(*Connection); ok {
		conn.end()
	}
}

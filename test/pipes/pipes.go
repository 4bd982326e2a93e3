// Package pipes has a listener of connections within the process. They are the only ones that tests
// in a bubble (testing/synctest) can wait for.
package pipes

import (
	"net"
	"sync"
)

// Listener accepts what Dial makes. Any goroutine may use it.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  sync.Once
}

// Listen returns a listener.
func Listen() *Listener { return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Dial returns the other end of a connection that was accepted. Nothing is buffered: a write ends
// when all of it was read.
func (l *Listener) Dial() net.Conn {
	here, there := net.Pipe()
	l.conns <- there
	return here
}

// Accept returns the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

// Addr is that of a pipe.
func (*Listener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

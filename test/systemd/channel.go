package systemd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"

	"github.com/bursar/bursar/test/systemd/wire"
)

// errReset means that a machine, or the program in it, restarted before a command had ended.
var errReset = errors.New("the machine has restarted")

// channel is this end of the connection to the program in a machine.
type channel struct {
	listener *net.UnixListener
	done     chan struct{} // closed when the listener has ended

	mu         sync.Mutex
	connection net.Conn // the latest one
	hello      wire.Hello
	connected  chan struct{} // closed at the next hello
	next       uint64
	waiting    map[uint64]chan wire.Answer // by request; closed if no answer will come
}

func listen(listener *net.UnixListener) *channel {
	c := &channel{listener: listener, done: make(chan struct{}), connected: make(chan struct{}), waiting: map[uint64]chan wire.Answer{}}
	go func() {
		defer close(c.done)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			c.mu.Lock()
			c.connection = connection
			c.mu.Unlock()
			c.read(connection)
		}
	}()
	return c
}

// read ends with the connection: a container's program reconnects, a virtual machine has one
// connection for its life.
func (c *channel) read(connection net.Conn) {
	defer connection.Close()
	for lines := bufio.NewReader(connection); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			c.forget()
			return
		}
		var said wire.Line
		if json.Unmarshal(line, &said) != nil {
			continue // output of a machine during a reset
		}
		if said.Hello != nil {
			c.forget()
			c.mu.Lock()
			c.hello = *said.Hello
			close(c.connected)
			c.connected = make(chan struct{})
			c.mu.Unlock()
		}
		if said.Answer != nil {
			c.mu.Lock()
			if answer := c.waiting[said.Answer.ID]; answer != nil {
				delete(c.waiting, said.Answer.ID)
				answer <- *said.Answer
			}
			c.mu.Unlock()
		}
	}
}

// forget ends all waits for an answer.
func (c *channel) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hello = wire.Hello{}
	for id, answer := range c.waiting {
		delete(c.waiting, id)
		close(answer)
	}
}

func (c *channel) boot() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hello.Boot
}

func (c *channel) awaitHello(ctx context.Context, unlike string) error {
	for {
		c.mu.Lock()
		hello, connected := c.hello, c.connected
		c.mu.Unlock()
		if hello.Boot != "" && hello.Boot != unlike {
			return nil
		}
		select {
		case <-connected:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ask sends a request to the program and waits for the answer. If ctx ends first, the command is
// ended, too.
func (c *channel) ask(ctx context.Context, request wire.Request) (wire.Answer, error) {
	answer := make(chan wire.Answer, 1)
	c.mu.Lock()
	c.next++
	request.ID, request.Session = c.next, c.hello.Session
	err := errReset
	if request.Session != "" {
		c.waiting[request.ID] = answer
		err = c.sendLocked(request)
	}
	c.mu.Unlock()
	if err != nil {
		return wire.Answer{}, err
	}
	select {
	case a, ok := <-answer:
		if !ok {
			return wire.Answer{}, errReset
		}
		return a, nil
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, request.ID)
		return wire.Answer{}, errors.Join(ctx.Err(), c.sendLocked(wire.Request{Session: request.Session, ID: request.ID, Cancel: true}))
	}
}

func (c *channel) sendLocked(request wire.Request) error {
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	_, err = c.connection.Write(append(line, '\n'))
	return err
}

func (c *channel) close() error {
	err := c.listener.Close()
	c.mu.Lock()
	if c.connection != nil {
		_ = c.connection.Close() // its reader may have done so
	}
	c.mu.Unlock()
	<-c.done
	return err
}

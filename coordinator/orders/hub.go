// Package orders carries orders to the agents of hosts. Each agent opens one stream for them. The
// package does not know the ledger: its caller makes the orders, and agents answer by other calls.
// Any goroutine may use a Hub.
package orders

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// queued bounds the orders that wait for one agent. An agent takes an order in microseconds, and
// answers by another call. The queue fills only if the agent reads nothing.
const queued = 256

// queuedBytes bounds the total size of the orders that wait for one agent. An order to launch has
// some 64 KiB at most.
const queuedBytes = 4 << 20

// ErrReplaced ends a stream after the host's agent, or a newer agent of the host, has opened
// another.
var ErrReplaced = errors.New("the host's agent has opened another stream of orders")

// ErrSlow ends the stream of an agent that does not take its orders.
var ErrSlow = fmt.Errorf("the agent has not taken %d orders: it has to open another stream", queued)

// OldError refuses the stream of an agent that is older than the attached one.
type OldError struct {
	Host               string
	Incarnation, Newer uint64
}

func (e *OldError) Error() string {
	return fmt.Sprintf("host %s: incarnation %d is older than %d, which is attached", e.Host, e.Incarnation, e.Newer)
}

// Hub holds the streams of agents to this coordinator.
type Hub struct {
	// Attached is called when an agent has opened a stream, after its first message was sent.
	// launches reports whether the host's file allows engines of callers elsewhere. May be nil.
	Attached func(host string, launches bool)

	mu      sync.Mutex
	streams map[string]*Stream // guarded by mu; by host
	closed  error              // guarded by mu; the error for new streams after Close
}

// Stream is that of one agent.
type Stream struct {
	host        string
	incarnation uint64
	bytes       int // of orders; guarded by the lock of Hub
	orders      chan *bursarv1.AttachResponse
	over        chan error // has one element, the reason, once the stream must end
}

// New makes a hub without streams.
func New() *Hub { return &Hub{streams: make(map[string]*Stream)} }

// Attach serves the stream of a host's agent until ctx ends, the stream is cut, or a newer stream
// replaces it. send must return when ctx has ended. keepAlive is the period of messages without an
// order; the first message is one. The error is ErrReplaced, ErrSlow, an *OldError, that of Cut or
// Close, of send, or of ctx.
func (h *Hub) Attach(ctx context.Context, from *bursarv1.AttachRequest, keepAlive time.Duration, send func(*bursarv1.AttachResponse) error) error {
	host := from.GetHostId()
	s, err := h.Open(host, from.GetIncarnation())
	if err != nil {
		return err
	}
	defer h.Leave(s)
	if err := send(&bursarv1.AttachResponse{}); err != nil {
		return err
	}
	if h.Attached != nil {
		h.Attached(host, from.GetLaunches())
	}
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		order := &bursarv1.AttachResponse{}
		select {
		case order = <-s.orders:
			h.taken(s, order)
		case <-tick.C:
		case err := <-s.over:
			return err
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // it is the caller's
		}
		if err := send(order); err != nil {
			return err
		}
	}
}

// taken subtracts an order's size from the queue.
func (h *Hub) taken(s *Stream, order *bursarv1.AttachResponse) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.bytes -= proto.Size(order)
}

// Open opens the stream of a host's agent: the newest one of the newest incarnation counts. Attach
// serves one. The error is an *OldError, or that of Close.
func (h *Hub) Open(host string, incarnation uint64) (*Stream, error) {
	s := &Stream{host: host, incarnation: incarnation, orders: make(chan *bursarv1.AttachResponse, queued), over: make(chan error, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed != nil {
		return nil, h.closed
	}
	if before := h.streams[host]; before != nil {
		if before.incarnation > incarnation {
			return nil, &OldError{host, incarnation, before.incarnation}
		}
		before.end(ErrReplaced)
	}
	h.streams[host] = s
	return s, nil
}

// Leave takes a stream that has ended off the hub.
func (h *Hub) Leave(s *Stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams[s.host] == s {
		delete(h.streams, s.host)
	}
}

// Poll returns the next order of a stream; nil: there is none now. The error says why the stream
// must end.
func (h *Hub) Poll(s *Stream) (*bursarv1.AttachResponse, error) {
	select {
	case err := <-s.over:
		return nil, err
	default:
	}
	select {
	case order := <-s.orders:
		h.taken(s, order)
		return order, nil
	default:
		return nil, nil //nolint:nilnil // there is none
	}
}

func (s *Stream) end(why error) {
	select {
	case s.over <- why:
	default: // it ends already
	}
}

// Send enqueues an order for the agent of a host, and reports whether it did. It returns false if
// the agent is not attached, or if too many bytes wait for it; the caller may send the order again
// later. If too many orders wait, the stream ends. The agent's answer tells whether the order
// arrived.
func (h *Hub) Send(host string, order *bursarv1.AttachResponse) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.streams[host]
	size := proto.Size(order)
	if s == nil || s.bytes+size > queuedBytes {
		return false
	}
	select {
	case s.orders <- order:
		s.bytes += size
		return true
	default:
		s.end(ErrSlow)
		delete(h.streams, host)
		return false
	}
}

// Offer is Send for orders that may be lost and that callers can make in large numbers. It drops an
// order if the queue is half full of orders or bytes: the other half is for launches. The error is
// a *NotAttachedError; then nothing was sent.
func (h *Hub) Offer(host string, order *bursarv1.AttachResponse) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.streams[host]
	size := proto.Size(order)
	if s == nil || len(s.orders) >= queued/2 || s.bytes+size > queuedBytes/2 {
		return &NotAttachedError{Host: host, Busy: s != nil}
	}
	s.orders <- order // there is room: each sender holds the lock
	s.bytes += size
	return nil
}

// IsAttached reports whether the agent of a host is attached.
func (h *Hub) IsAttached(host string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams[host] != nil
}

// Close ends all streams, and refuses new ones with the same error.
func (h *Hub) Close(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = why
	h.cut(why)
}

// Cut ends all streams.
func (h *Hub) Cut(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut(why)
}

// cut needs the lock of h.
func (h *Hub) cut(why error) {
	for host, s := range h.streams {
		s.end(why)
		delete(h.streams, host)
	}
}

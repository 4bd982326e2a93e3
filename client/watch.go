package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"connectrpc.com/connect"
	"github.com/cenkalti/backoff/v4"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/internal/pause"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// WatchAllocations yields transitions after a revision, and resumes after the last one when the
// server or the connection comes back. It ends when the context does, or with the error that it
// yields last. OUT_OF_RANGE means that the server no longer holds the transitions after the
// revision: List, and watch from its revision; or see WithGaps. Other errors are as for every call.
// Keep-alives, which have no allocation, are yielded too.
func (c *Client) WatchAllocations(
	ctx context.Context, req *bursarv1.AllocationServiceWatchRequest,
) iter.Seq2[*bursarv1.AllocationServiceWatchResponse, error] {
	req = orEmpty(req)
	return follow(ctx, c.settings, req.GetAfterRevision(),
		func(after uint64) (*connect.ServerStreamForClient[bursarv1.AllocationServiceWatchResponse], error) {
			next := proto.CloneOf(req)
			next.AfterRevision = after
			return c.allocations.Watch(ctx, next)
		})
}

// WatchCluster yields changes of allocations, hosts and rules after a revision, like
// WatchAllocations.
func (c *Client) WatchCluster(
	ctx context.Context, req *bursarv1.ClusterServiceWatchRequest,
) iter.Seq2[*bursarv1.ClusterServiceWatchResponse, error] {
	req = orEmpty(req)
	return follow(ctx, c.settings, req.GetAfterRevision(),
		func(after uint64) (*connect.ServerStreamForClient[bursarv1.ClusterServiceWatchResponse], error) {
			next := proto.CloneOf(req)
			next.AfterRevision = after
			return c.cluster.Watch(ctx, next)
		})
}

func orEmpty[M any](msg *M) *M {
	if msg == nil {
		return new(M)
	}
	return msg
}

// follow reads one stream after the other.
func follow[M any, R interface {
	*M
	GetRevision() uint64
}](
	ctx context.Context, s settings, after uint64, open func(after uint64) (*connect.ServerStreamForClient[M], error),
) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		begin := func() *delays {
			d := newDelays(ctx, s.retries, 0)
			d.reached = s.reached
			return d
		}
		delays := begin()
		o := outage{settings: s}
		begun, lost := false, uint64(0) // lost is the revision before a gap; 0: there is none
		for {
			answered := false
			stream, err := open(after)
			if err == nil {
				for stream.Receive() {
					answered, begun = true, true
					msg := R(stream.Msg())
					if lost != 0 {
						s.missed(lost, msg.GetRevision())
						lost = 0
					}
					after = max(after, msg.GetRevision())
					if !yield(msg, nil) {
						_ = stream.Close()
						return
					}
				}
				err = brokenIsUnavailable(ctx, stream.Err())
				_ = stream.Close()
			}
			if ctx.Err() != nil {
				return
			}
			if err == nil { // only a server that shuts down ends a stream this way
				err = connect.NewError(connect.CodeUnavailable, errors.New("the server has ended the stream"))
			}
			if answered {
				// it may have been silent for long before: patience starts now
				s.reached.Store(true)
				delays = begin()
				delays.present = true // the address was right
				o = outage{settings: s}
			}
			delays.attemptFailed(err)
			o.failed(err)
			notHeld := begun && s.missed != nil && connect.CodeOf(err) == connect.CodeOutOfRange
			if notHeld && !answered && after != 0 {
				lost, after = after, 0
			}
			if s.retries.Patience >= 0 && (retriable(err) || notHeld) && waitForAttempt(ctx, delays) {
				continue
			}
			if ctx.Err() == nil {
				yield(nil, err)
			}
			return
		}
	}
}

// outage is a period in which nobody answers a watch.
type outage struct {
	settings settings
	began    time.Time // of its first failure; zero: nothing has failed
	told     bool
}

// failed records a failed attempt, and reports the outage once.
func (o *outage) failed(err error) {
	now := time.Now()
	if o.began.IsZero() {
		o.began = now
	}
	if o.settings.notify != nil && !o.told && now.Sub(o.began) >= o.settings.notifyAfter {
		o.told = true
		o.settings.notify(err)
	}
}

// waitForAttempt waits for the next attempt; it returns false if there is none.
func waitForAttempt(ctx context.Context, delays *delays) bool {
	delay := delays.NextBackOff()
	return delay != backoff.Stop && pause.For(delay, ctx.Done(), nil)
}

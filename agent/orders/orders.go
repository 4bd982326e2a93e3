package orders

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/cenkalti/backoff/v4"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/callers"
	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/engine"
	"github.com/bursar/bursar/agent/hoststate"
	"github.com/bursar/bursar/agent/loops"
	"github.com/bursar/bursar/agent/once"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/pause"
	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

const (
	retryFirst = 200 * time.Millisecond
	retryLast  = 5 * time.Second
	// olderFirst and olderLast bound the pause before the stream is tried at another coordinator,
	// if one does not support it: during an upgrade the versions differ.
	olderFirst = 5 * time.Second
	olderLast  = time.Minute
	// silence is how long a stream may be without a message: three keep-alives.
	silence = 45 * time.Second
	// atOnce is the most launches at a time. Each starts a process and makes a cgroup.
	atOnce = 8
	// mostUnderWay is the most launch orders in flight, including those that wait for a slot.
	// Further orders are dropped: the coordinator repeats them.
	mostUnderWay = 256
	// maxOrder bounds a launch order, in bytes: a spec and its secrets have 64 KiB at most.
	maxOrder = 256 << 10
	// grantPatience bounds the wait for an order's grant in a Sync.
	grantPatience = 10 * time.Second
	// mostDone is the number of finished orders that are remembered, to answer repeated ones.
	mostDone = 1024
)

// Engines starts engines; *engine.Engines implements it and documents its methods.
type Engines interface {
	BeginLaunch(ctx context.Context, id string) (ended func(), err error)
	Launch(ctx context.Context, l engine.Launch) (active *bursarv1.Allocation, logDir string, err error)
	Stop(ctx context.Context, order *bursarv1.StopOrder)
	Signal(ctx context.Context, id string, signal bursarv1.Signal, by string) error
}

// Options are the parts that a Taker needs. All of them are required.
type Options struct {
	HostID  func() string
	State   *hoststate.State
	Hosts   bursarv1connect.HostServiceClient
	Engines Engines
	Users   Users
	Policy  func() Policy
	SyncDue *loops.Wakeup
	// Elsewhere makes the next call go to another coordinator.
	Elsewhere func()
	Sender    Sender
	Log       *slog.Logger
}

// Sender sends output to coordinators; *sending.Sender implements it and documents its methods.
type Sender interface {
	Send(ctx context.Context, order *bursarv1.SendOutputOrder)
	Stop(order *bursarv1.StopSendingOrder)
	Wait()
}

// Taker receives and carries out the orders of one host. Make it with New, and call Run once.
type Taker struct {
	Options

	underWay chan struct{} // of orders to launch
	slots    chan struct{} // of launches
	signals  chan struct{} // of answers to signals
	groups   groups

	taken *once.Orders[*bursarv1.AnswerRequest]
}

// New returns a taker that has no stream yet.
func New(o Options) *Taker {
	return &Taker{
		Options: o, underWay: make(chan struct{}, mostUnderWay), slots: make(chan struct{}, atOnce), signals: make(chan struct{}, signalsAtOnce),
		taken: once.NewOrders[*bursarv1.AnswerRequest](mostDone),
	}
}

// newRetry returns the pauses between attempts of a call.
func newRetry() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(retryFirst), backoff.WithMaxInterval(retryLast),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0.5), backoff.WithMaxElapsedTime(0),
	)
}

// Run takes orders until ctx ends. When it returns, no launch is under way, and nothing is sent.
func (t *Taker) Run(ctx context.Context) error {
	var launches sync.WaitGroup
	defer launches.Wait()
	defer t.Sender.Wait()
	retry, older := newRetry(), time.Duration(0)
	for ctx.Err() == nil {
		began, asOf := time.Now(), t.epoch()
		err := t.take(ctx, &launches)
		if ctx.Err() != nil {
			break
		}
		unknown, lived := connect.CodeOf(err) == connect.CodeUnimplemented, time.Since(began) > retryLast
		if lived {
			retry.Reset() // the stream was connected, so this is a new failure
		}
		wait := retry.NextBackOff()
		switch {
		case unknown:
			if older == 0 {
				t.Log.Info("the coordinator is of an older version and sends no orders: no engine is started here from elsewhere, and nobody elsewhere reads output")
			}
			older = min(max(2*older, olderFirst), olderLast)
			wait = older
			t.Elsewhere()
		case lived:
			older = 0
		}
		t.Log.Debug("the stream of orders has ended", "error", err, "retry_in", wait)
		if !unknown {
			pause.For(wait, ctx.Done(), nil)
		} else if t.led(ctx, wait, asOf) {
			older = olderFirst / 2 // the leader has changed, and may have a newer version
		}
	}
	return nil
}

// led waits for the duration wait, or until ctx ends. It returns true as soon as an answer of a new
// leader shows a later epoch.
func (t *Taker) led(ctx context.Context, wait time.Duration, epoch uint64) bool {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		known, answered := uint64(0), (<-chan struct{})(nil)
		t.State.Locked(func(k *tracker.Tracker) { known, answered = k.Epoch(), t.State.Answered.Next() })
		if known > epoch {
			return true
		}
		select {
		case <-answered:
		case <-ctx.Done():
			return false
		}
	}
}

// take takes the orders of one stream.
func (t *Taker) take(ctx context.Context, launches *sync.WaitGroup) error {
	running := ctx // an engine's stop outlives the stream of its order
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alive := time.AfterFunc(silence, cancel)
	defer alive.Stop()
	policy := t.Policy()
	stream, err := t.Hosts.Attach(ctx, &bursarv1.AttachRequest{HostId: t.HostID(), Incarnation: t.State.Incarnation(), Epoch: t.epoch(), Launches: policy.On()})
	if err != nil {
		return err //nolint:wrapcheck // the caller looks at its code
	}
	defer stream.Close()
	for stream.Receive() {
		alive.Reset(silence)
		message := stream.Msg()
		if err := once.CheckEpoch(message.GetEpoch(), t.epoch()); err != nil {
			return err //nolint:wrapcheck // says all
		}
		switch order := message.GetOrder().(type) {
		case *bursarv1.AttachResponse_Launch:
			t.begins(running, order.Launch, launches)
		case *bursarv1.AttachResponse_Stop:
			t.Engines.Stop(running, order.Stop)
		case *bursarv1.AttachResponse_Signal:
			launches.Go(func() { t.signal(running, order.Signal) })
		case *bursarv1.AttachResponse_SendOutput:
			t.Sender.Send(running, order.SendOutput) // not tied to this stream
		case *bursarv1.AttachResponse_StopSending:
			t.Sender.Stop(order.StopSending)
		}
	}
	return stream.Err() //nolint:wrapcheck // as above
}

func (t *Taker) epoch() (epoch uint64) {
	t.State.Locked(func(known *tracker.Tracker) { epoch = known.Epoch() })
	return epoch
}

// begins carries out an order in the background. It drops an order that no valid coordinator sends,
// or if too many are in flight: the coordinator may be malicious.
func (t *Taker) begins(ctx context.Context, order *bursarv1.LaunchOrder, launches *sync.WaitGroup) {
	id := order.GetAllocationId()
	if err := cgroup.CheckID(id); err != nil || proto.Size(order) > maxOrder {
		t.Log.Warn("an order to launch is dropped: no coordinator gives such a one", "allocation_id", spelling.Cut(id, 100), "bytes", proto.Size(order))
		return
	}
	select {
	case t.underWay <- struct{}{}:
		launches.Go(func() {
			defer func() { <-t.underWay }()
			t.launch(ctx, order)
		})
	default:
		t.Log.Warn("an order to launch is dropped until its coordinator repeats it: too many are under way", "allocation_id", id, "orders", mostUnderWay)
	}
}

// launch carries out an order once, and answers it. It answers a repeated order again. ctx is the
// agent's: its end ends the wait for a slot, but no launch that has begun.
func (t *Taker) launch(ctx context.Context, order *bursarv1.LaunchOrder) {
	key := once.Key{AllocationID: order.GetAllocationId(), GrantRevision: order.GetGrantRevision()}
	answer, known := t.taken.Take(key)
	if known == once.New {
		select {
		case t.slots <- struct{}{}:
			defer func() { <-t.slots }()
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // the launch has not begun, and the host has not failed
			t.taken.Forget(key)
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), launchPatience)
	defer cancel()
	switch known {
	case once.UnderWay:
		return
	case once.Answered:
		t.tell(ctx, answer)
		return
	case once.New:
	}
	about, confirms := &audited{}, &confirmer{taker: t, order: order}
	answer, err := t.execute(ctx, order, confirms, about)
	t.auditLaunch(key.AllocationID, about, err)
	if err != nil {
		answer = t.answer(order)
		answer.Result = &bursarv1.AnswerRequest_Failed{Failed: &bursarv1.LaunchFailed{Reason: reasonOf(err), Fault: faultOf(err), Process: confirms.process}}
	}
	t.taken.Answer(key, answer)
	t.tell(ctx, answer)
}

// tell answers an order.
func (t *Taker) tell(ctx context.Context, answer *bursarv1.AnswerRequest) {
	if _, err := t.call(ctx, answer); err != nil {
		t.Log.Warn("what became of an order could not be told", "allocation_id", answer.GetAllocationId(), "error", err)
	}
}

// call sends an answer until a coordinator has received it, or ctx has ended: a change of leader
// only delays it. An answer may be repeated.
func (t *Taker) call(ctx context.Context, answer *bursarv1.AnswerRequest) (*bursarv1.AnswerResponse, error) {
	return backoff.RetryWithData(func() (*bursarv1.AnswerResponse, error) { //nolint:wrapcheck // it is the coordinator's
		response, err := t.Hosts.Answer(ctx, answer)
		if err != nil && !callers.IsTransient(err) {
			err = backoff.Permanent(err) // the coordinator's decision
		}
		return response, err //nolint:wrapcheck // as above
	}, backoff.WithContext(newRetry(), ctx))
}

func (t *Taker) answer(order *bursarv1.LaunchOrder) *bursarv1.AnswerRequest {
	return &bursarv1.AnswerRequest{
		HostId: t.HostID(), Incarnation: t.State.Incarnation(), AllocationId: order.GetAllocationId(), GrantRevision: order.GetGrantRevision(),
	}
}

package chaos

import (
	"context"
	"math/rand/v2"
	"os/exec"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// worker is one of many clients. It holds at most one allocation at a time and gives back whatever
// it gets.
type worker struct {
	*load
	client bursarv1connect.AllocationServiceClient
	local  bool // it calls the agent
	random *rand.Rand
	user   string
	name   string
	asked  int
}

// work does one thing after the other until ctx ends. What was begun is finished.
func (w *worker) work(ctx context.Context) {
	for ctx.Err() == nil && !w.t.Failed() {
		w.step(ctx)
	}
}

// step is one request and its life. Calls are not bounded by the end of the load: what was begun
// is finished.
func (w *worker) step(ctx context.Context) {
	background := w.t.Context()
	switch w.random.IntN(20) {
	case 0:
		w.giveUpWaiting(background)
		return
	case 1:
		w.follow(background)
		return
	}
	var wait time.Duration
	if w.random.IntN(2) == 0 {
		wait = upTo(w.random, 2*time.Second)
	}
	r := w.newRequest(wait)
	if w.random.IntN(20) == 0 {
		r.ReservationTtl = seconds(1)
	}
	g, ok := w.ask(background, r)
	if !ok {
		rest(ctx, upTo(w.random, 10*time.Millisecond))
		return
	}
	if g.expires {
		rest(background, time.Until(g.GetExpireTime().AsTime()))
		return
	}
	if w.random.IntN(10) == 0 {
		w.repeat(background, r, g)
	}
	w.think(background)
	w.use(background, g)
}

// think holds what was granted for a while: mostly a short one, so that many come and go.
func (w *worker) think(ctx context.Context) {
	if w.random.IntN(10) == 0 {
		rest(ctx, upTo(w.random, 50*time.Millisecond))
		return
	}
	rest(ctx, upTo(w.random, 4*time.Millisecond))
}

// use takes a reservation to its end in one of many ways.
func (w *worker) use(ctx context.Context, g granted) {
	switch n := w.random.IntN(20); {
	case n < 3:
		w.cancelOrRelease(ctx, g, true)
	case n < 6:
		w.cancelOrRelease(ctx, g, false)
	case n < 8 && w.local:
		w.runProcess(ctx, g)
	default:
		w.lease(ctx, g)
	}
}

// repeat asks again under the same request id: it is the same allocation.
func (w *worker) repeat(ctx context.Context, r *bursarv1.AllocateRequest, g granted) {
	res, err := w.client.Allocate(ctx, r)
	switch {
	case err != nil:
		w.fail("repeat", err)
	case res.GetAllocation().GetId() != g.GetId():
		w.t.Errorf("%s: the same request is %s, then %s", w, g.GetId(), res.GetAllocation().GetId())
	}
}

func (w *worker) cancelOrRelease(ctx context.Context, g granted, cancel bool) {
	w.leave(g)
	var a *bursarv1.Allocation
	var err error
	want := released
	if cancel {
		want = canceled
		var res *bursarv1.CancelResponse
		res, err = w.client.Cancel(ctx, &bursarv1.CancelRequest{Id: g.GetId()})
		a = res.GetAllocation()
	} else {
		var res *bursarv1.ReleaseResponse
		res, err = w.client.Release(ctx, &bursarv1.ReleaseRequest{Id: g.GetId()})
		a = res.GetAllocation()
	}
	switch {
	case err != nil:
		w.fail("give back", err)
	case a.GetState() != want, !strings.HasPrefix(a.GetReason(), stateName(want)+" by "):
		// It had ended before, while its client took it for its own.
		w.t.Errorf("%s: given back and then %s (%s), want %s by this client", w, stateName(a.GetState()), a.GetReason(), stateName(want))
	}
}

// lease confirms an engine without a pid, which may renew and change its size, and releases it.
func (w *worker) lease(ctx context.Context, g granted) {
	if _, err := w.client.Confirm(ctx, &bursarv1.ConfirmRequest{Id: g.GetId(), Lease: seconds(60)}); err != nil {
		w.fail("confirm", err)
	}
	w.think(ctx)
	if w.random.IntN(4) == 0 {
		if _, err := w.client.Renew(ctx, &bursarv1.RenewRequest{Id: g.GetId()}); err != nil {
			w.fail("renew", err)
		}
	}
	if w.random.IntN(4) == 0 {
		w.resize(ctx, g)
	}
	w.cancelOrRelease(ctx, g, false)
}

// resize changes the memory of an allocation, down in the book before it is asked for, and up when
// it was granted.
func (w *worker) resize(ctx context.Context, g granted) {
	before := amountsOf(g.GetEntitled())
	memory := int64(w.random.IntN(2*int(before["memory"]>>20)+16)) << 20
	after := before.plus(amounts{"memory": memory - before["memory"]})
	if memory < before["memory"] {
		w.enter(g, after)
	}
	_, err := w.client.Resize(ctx, &bursarv1.ResizeRequest{Id: g.GetId(), Entitled: &bursarv1.Resource{MemoryBytes: &memory}})
	_, short := refused(err)
	switch {
	case err == nil && memory > before["memory"]:
		w.enter(g, after)
	case err != nil && (!short || memory <= before["memory"]):
		w.fail("resize", err)
	}
}

// runProcess confirms a real process. Half of them are released by the worker, the others by the
// agent, which sees them end.
func (w *worker) runProcess(ctx context.Context, g granted) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		w.t.Errorf("%s: %v", w, err)
		return
	}
	w.processes.Add(1)
	end := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
	_, err := w.client.Confirm(ctx, &bursarv1.ConfirmRequest{Id: g.GetId(), Process: &bursarv1.Process{Pid: int32(cmd.Process.Pid)}})
	if err != nil {
		w.fail("confirm a process", err)
	}
	rest(ctx, upTo(w.random, 100*time.Millisecond))
	if w.random.IntN(2) == 0 {
		w.leave(g)
		end()
		return
	}
	// Its caller's word frees nothing.
	res, err := w.client.Release(ctx, &bursarv1.ReleaseRequest{Id: g.GetId()})
	if a := res.GetAllocation(); err != nil {
		w.fail("release a process that runs", err)
	} else if a.GetState() != active || !a.GetReleasing() {
		w.t.Errorf("%s: %s is %s (%s) while its process runs", w, g.GetId(), stateName(a.GetState()), a.GetReason())
	}
	end()
	w.cancelOrRelease(ctx, g, false)
}

// giveUpWaiting goes away from a wait and cancels it, in whatever state it is by then.
func (w *worker) giveUpWaiting(ctx context.Context) {
	r := w.newRequest(10 * time.Second)
	// If the cancellation overtakes the request, this ends it.
	r.ReservationTtl = seconds(1)
	short, cancel := context.WithTimeout(ctx, upTo(w.random, 300*time.Millisecond))
	defer cancel()
	if _, err := w.client.Allocate(short, r); err != nil {
		if insufficient, ok := refused(err); ok { // larger than its quota
			w.checkShortfalls(insufficient)
			return
		}
	}
	// A grant that came in time is canceled too; it never was in the book.
	res, err := w.client.Cancel(ctx, &bursarv1.CancelRequest{RequestId: r.GetRequestId()})
	if err != nil {
		w.fail("cancel a wait", err)
	} else if state := res.GetAllocation().GetState(); res.GetAllocation() != nil && state != canceled && state != expired {
		w.t.Errorf("%s: a canceled wait is %s", w, stateName(state))
	}
}

// follow asks asynchronously, and polls until there is a decision.
func (w *worker) follow(ctx context.Context) {
	r := w.newRequest(time.Second)
	r.Async = true
	g, ok := w.ask(ctx, r)
	if !ok {
		return
	}
	for deadline := time.Now().Add(patience); ; rest(ctx, pollEvery) {
		res, err := w.client.Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: g.GetId()})
		if err != nil {
			w.fail("follow", err)
			return
		}
		g.Allocation = res.GetAllocation()
		switch state := g.GetState(); {
		case state == reserved:
			w.enter(g, amountsOf(g.GetEntitled()))
			w.use(ctx, g)
			return
		case state == expired: // its wait was over
			w.waits.Add(1)
			return
		case state != waiting:
			w.t.Errorf("%s: followed a request until it was %s", w, stateName(state))
			return
		case time.Now().After(deadline):
			w.t.Errorf("%s: a wait of 1s goes on after %s", w, patience)
			return
		}
	}
}

func milliseconds(d time.Duration) *durationpb.Duration {
	return durationpb.New(d.Truncate(time.Millisecond))
}

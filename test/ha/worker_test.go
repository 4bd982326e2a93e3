//go:build linux

package ha

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// load is all workers together.
type load struct {
	*cluster
	book *book
	seed uint64
	// steps is read-locked by each worker's step. A writer makes all of them stop between two
	// steps, with what they hold.
	steps sync.RWMutex

	ctx     context.Context // ends with the load
	stop    context.CancelFunc
	running sync.WaitGroup
	began   time.Time
	racing  *race
}

// users is how many users there are: five agents' launchers and a gateway ask for each, so that
// its quota binds.
const users = 10

// startLoad prepares a load that ends with the test.
func (c *cluster) startLoad(seed uint64) *load {
	ctx, cancel := context.WithCancel(c.t.Context())
	l := &load{cluster: c, book: newBook(), seed: seed, ctx: ctx, stop: cancel, began: time.Now()}
	l.racing = &race{load: l, granted: make(map[int32]string)}
	c.t.Cleanup(func() {
		cancel()
		l.running.Wait()
	})
	return l
}

// startLaunchers starts one on every agent's host, where it starts real processes.
func (l *load) startLaunchers() {
	for i, h := range l.hosts {
		l.work(&worker{name: h.id, user: userName(i % users), client: h.local.Allocations(), local: true}, i)
	}
}

// startGateways starts one for every user, which asks coordinators for a host and starts engines
// of which only it knows.
func (l *load) startGateways() {
	for i := range users {
		gateway := l.gateway
		if i%3 == 0 { // this one knows one coordinator only
			gateway = l.newClient(l.members[i%len(l.members)].url, append(l.trust.client(l.cluster, "gateway"), patiently()...)...)
		}
		l.work(&worker{name: fmt.Sprintf("gateway-%d", i), user: userName(i), client: gateway.Allocations()}, 1000+i)
	}
}

func userName(n int) string { return fmt.Sprintf("user%d", n) }

func (l *load) work(w *worker, number int) {
	w.load, w.random = l, rand.New(rand.NewPCG(l.seed, uint64(number)))
	l.running.Go(func() {
		for l.ctx.Err() == nil && !l.t.Failed() {
			l.steps.RLock()
			w.step()
			l.steps.RUnlock()
			think(l.ctx, w.random, 1500*time.Millisecond)
		}
		w.endAll()
	})
}

// think waits for up to the time, or until ctx ends.
func think(ctx context.Context, random *rand.Rand, most time.Duration) {
	wait(ctx, time.Duration(random.Int64N(int64(most))))
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// worker is one client. It keeps a few engines over many steps, and over faults.
type worker struct {
	*load
	name, user string
	client     bursarv1connect.AllocationServiceClient
	local      bool // it calls the agent, and starts real processes
	random     *rand.Rand
	asked      int
	kept       []engine
}

// engine is one that runs: a process, or a lease if process is nil.
type engine struct {
	id      string
	process *exec.Cmd
}

// step asks for something and uses it, or gives back what it has.
func (w *worker) step() {
	if len(w.kept) > 0 && w.random.IntN(3) == 0 {
		w.endOne()
		return
	}
	r := w.request()
	if w.random.IntN(12) == 0 {
		w.giveUp(r)
		return
	}
	a, ok := w.allocate(r)
	if !ok {
		if len(w.kept) > 0 {
			w.endOne()
		}
		return
	}
	if w.random.IntN(8) == 0 {
		w.repeat(r, a)
	}
	switch n := w.random.IntN(10); {
	case n < 5 && len(w.kept) < 2:
		w.run(a)
	case n < 7:
		w.cancel(a)
	default:
		w.release(a.GetId())
	}
}

func (w *worker) request() *bursarv1.AllocateRequest {
	w.asked++
	memory, cpu, instances := int64(1+w.random.IntN(requestMemory>>20))<<20, int64(10*(1+w.random.IntN(5))), int64(1)
	r := &bursarv1.AllocateRequest{
		RequestId: fmt.Sprintf("%s-%d", w.name, w.asked),
		Labels:    map[string]string{"user": w.user, "creator": "load", "engineType": "test"},
		Resource:  &bursarv1.Resource{MemoryBytes: &memory, CpuMillis: &cpu, Instances: &instances},
	}
	if w.random.IntN(2) == 0 {
		r.Wait = durationpb.New(time.Duration(1+w.random.IntN(2000)) * time.Millisecond)
	}
	return r
}

// fail reports a call that should have been answered.
func (w *worker) fail(what string, err error) {
	if w.t.Context().Err() == nil {
		w.t.Errorf("%s: %s: %v", w.name, what, err)
	}
}

// allocate asks until it gets an answer. The answer may be no, and says what was missing.
func (w *worker) allocate(r *bursarv1.AllocateRequest) (*bursarv1.Allocation, bool) {
	res, err := w.client.Allocate(w.t.Context(), r)
	if err == nil {
		if a := res.GetAllocation(); a.GetState() != reserved || a.GetRequestId() != r.GetRequestId() {
			w.t.Errorf("%s: asked for %s and was given %v", w.name, r.GetRequestId(), a)
		}
		w.book.acknowledged(res.GetAllocation(), w.local)
		return res.GetAllocation(), true
	}
	if _, short := client.Insufficient(err); !short {
		w.fail("allocate", err)
	}
	w.book.refused(r.GetRequestId())
	return nil, false
}

// repeat asks again under the same request id: it is the same allocation.
func (w *worker) repeat(r *bursarv1.AllocateRequest, a *bursarv1.Allocation) {
	res, err := w.client.Allocate(w.t.Context(), r)
	switch {
	case err != nil:
		w.fail("repeat", err)
	case res.GetAllocation().GetId() != a.GetId():
		w.t.Errorf("%s: %s is allocation %s, then %s", w.name, r.GetRequestId(), a.GetId(), res.GetAllocation().GetId())
	}
}

// giveUp goes away while it asks, and cancels whatever came of it.
func (w *worker) giveUp(r *bursarv1.AllocateRequest) {
	r.Wait = durationpb.New(10 * time.Second)
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Duration(1+w.random.IntN(300))*time.Millisecond)
	defer cancel()
	res, err := w.client.Allocate(ctx, r)
	if err == nil {
		w.book.acknowledged(res.GetAllocation(), false)
		w.cancel(res.GetAllocation())
		return
	}
	// The cancellation may overtake the request, so both are repeated until one of them is known
	// to be last.
	a, ok := w.allocate(r)
	if ok {
		w.cancel(a)
	}
}

func (w *worker) cancel(a *bursarv1.Allocation) {
	w.book.now(a.GetId(), reserved, canceled)
	if _, err := w.client.Cancel(w.t.Context(), &bursarv1.CancelRequest{RequestId: a.GetRequestId()}); err != nil {
		w.fail("cancel", err)
		return
	}
	w.book.now(a.GetId(), canceled)
}

func (w *worker) release(id string) {
	w.book.now(id, reserved, active, released)
	if _, err := w.client.Release(w.t.Context(), &bursarv1.ReleaseRequest{Id: id}); err != nil {
		w.fail("release", err)
		return
	}
	w.book.now(id, released)
}

// run makes an engine of a grant: on an agent's host a real process, elsewhere one with a lease.
func (w *worker) run(a *bursarv1.Allocation) {
	e := engine{id: a.GetId()}
	confirm := &bursarv1.ConfirmRequest{Id: a.GetId(), Lease: durationpb.New(time.Hour)}
	if w.local {
		e.process = exec.Command("sleep", "3600")
		e.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := e.process.Start(); err != nil {
			w.fail("start an engine", err)
			return
		}
		confirm = &bursarv1.ConfirmRequest{Id: a.GetId(), Process: &bursarv1.Process{Pid: int32(e.process.Process.Pid)}}
	}
	w.book.now(a.GetId(), reserved, active)
	if _, err := w.client.Confirm(w.t.Context(), confirm); err != nil {
		w.fail("confirm", err)
		e.kill()
		return
	}
	w.book.now(a.GetId(), active)
	w.kept = append(w.kept, e)
}

// endOne releases an engine, or makes its process die, which its agent notices.
func (w *worker) endOne() {
	i := w.random.IntN(len(w.kept))
	e := w.kept[i]
	w.kept = append(w.kept[:i], w.kept[i+1:]...)
	if e.process != nil && w.random.IntN(2) == 0 {
		w.book.now(e.id, released)
		e.kill()
		return
	}
	e.kill()
	w.release(e.id)
}

// endAll kills the engines without telling anybody.
func (w *worker) endAll() {
	for _, e := range w.kept {
		e.kill()
	}
}

func (e engine) kill() {
	if e.process != nil {
		_ = e.process.Process.Kill()
		_ = e.process.Wait() // it was killed
	}
}

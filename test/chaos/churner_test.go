package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// churner is a client of a server that is killed again and again.
type churner struct {
	*siege
	client    bursarv1connect.AllocationServiceClient
	random    *rand.Rand
	name      string
	forgetful bool
	asked     int
	mine      []*kept
	queued    []*kept // that wait for what somebody else has until the end
}

// newChurner makes the n-th client: half of them call the agent, half the coordinator.
func (s *siege) newChurner(n int) *churner {
	s.t.Helper()
	k := &churner{
		siege: s, random: rand.New(rand.NewPCG(s.seed, uint64(n)+1)), name: fmt.Sprintf("c%d", n), forgetful: n >= churners,
	}
	target := s.address
	if n%2 == 0 {
		target, k.name = s.socket, fmt.Sprintf("a%d", n)
	}
	// Between the kill and the next start nobody answers, and a start may be killed too.
	policy := client.WithRetries(client.RetryPolicy{Patience: 2 * upTime, Longest: 100 * time.Millisecond})
	if k.forgetful {
		policy = client.WithoutRetries()
	}
	k.client = s.client(target, policy, client.WithTimeout(2*upTime)).Allocations()
	return k
}

// churn does one thing after the other until it is stopped. Between two of them all may be
// compared.
func (k *churner) churn(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		k.pauseLock.RLock()
		k.step()
		k.done.Add(1)
		k.pauseLock.RUnlock()
		if k.t.Failed() {
			return
		}
		rest(k.t.Context(), upTo(k.random, 4*time.Millisecond))
	}
}

func (k *churner) step() {
	if !k.forgetful && k.random.IntN(8) == 0 {
		k.queue()
		return
	}
	if len(k.mine) < mostHeld && k.random.IntN(2) == 0 || len(k.mine) == 0 {
		k.allocate()
		return
	}
	n := k.random.IntN(len(k.mine))
	held := k.mine[n]
	if k.random.IntN(4) == 0 {
		k.resize(held)
		return
	}
	if held.last.GetState() == active || k.random.IntN(2) == 0 {
		k.mine = append(k.mine[:n], k.mine[n+1:]...)
		k.giveBack(held)
		return
	}
	k.confirm(held)
}

// allocate asks for something small, and remembers the answer.
func (k *churner) allocate() {
	k.asked++
	r := request(userName(k.random.IntN(4)), int64(k.random.IntN(8))<<20, int64(k.random.IntN(4)))
	r.RequestId = fmt.Sprintf("%s-%d", k.name, k.asked)
	r.ReservationTtl = seconds(600)
	if k.random.IntN(2) == 0 {
		r.Wait = milliseconds(upTo(k.random, 400*time.Millisecond) + time.Millisecond)
	}
	// Only time ends it, and so they have a quota of their own to fill.
	if k.forgetful {
		r.Labels["user"] = "forgetful"
		r.ReservationTtl = seconds(1 + k.random.Int64N(2))
		k.forget(r.GetRequestId(), true)
	}
	res, err := k.client.Allocate(k.t.Context(), r)
	if _, short := refused(err); short {
		return
	}
	if err != nil {
		k.fail("allocate", err)
		return
	}
	a := res.GetAllocation()
	if a.GetState() != reserved {
		k.t.Errorf("%s: a grant that is %s: %v", k.name, stateName(a.GetState()), a)
	}
	held := &kept{request: r, last: a}
	if !k.forgetful {
		k.mine = append(k.mine, held)
	}
	k.forget(r.GetRequestId(), false)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.acknowledged[a.GetId()] = held
	k.granted++
}

// queue asks for what somebody else has, without waiting for the answer, or takes such a request
// back.
func (k *churner) queue() {
	if len(k.queued) == mostQueued {
		held := k.queued[0]
		k.queued = k.queued[1:]
		k.giveBack(held)
		return
	}
	k.asked++
	r := request("single", 0, 0)
	r.RequestId = fmt.Sprintf("%s-%d", k.name, k.asked)
	r.Wait, r.Async = seconds(3600), true
	res, err := k.client.Allocate(k.t.Context(), r)
	if err != nil {
		k.fail("ask for what is taken", err)
		return
	}
	if a := res.GetAllocation(); a.GetState() != waiting {
		k.t.Errorf("%s: a request for what is taken is %s: %v", k.name, stateName(a.GetState()), a)
	}
	held := &kept{request: r, last: res.GetAllocation()}
	k.queued = append(k.queued, held)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.acknowledged[held.last.GetId()] = held
}

// resize asks for another entitlement, which may be refused: then it stays as it was.
func (k *churner) resize(held *kept) {
	memory, cpu := int64(k.random.IntN(8))<<20, int64(k.random.IntN(4))
	to := &bursarv1.ResizeRequest{Id: held.last.GetId(), Entitled: &bursarv1.Resource{MemoryBytes: &memory, CpuMillis: &cpu}}
	res, err := k.client.Resize(k.t.Context(), to)
	if _, short := refused(err); short {
		return
	}
	if err != nil {
		k.fail("resize", err)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	held.last = res.GetAllocation()
	k.resized++
}

// forget notes that the outcome of a request is unknown.
func (k *churner) forget(requestID string, unknown bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgotten[requestID] = unknown
}

// confirm makes a reservation an engine without a process here, which has the default lease:
// longer than any of these tests.
func (k *churner) confirm(held *kept) {
	res, err := k.client.Confirm(k.t.Context(), &bursarv1.ConfirmRequest{Id: held.last.GetId(), Address: "elsewhere:1"})
	if err != nil {
		k.fail("confirm", err)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	held.last = res.GetAllocation()
}

func (k *churner) giveBack(held *kept) {
	id := held.last.GetId()
	var err error
	if held.last.GetState() != active && k.random.IntN(2) == 0 {
		_, err = k.client.Cancel(k.t.Context(), &bursarv1.CancelRequest{Id: id})
	} else {
		_, err = k.client.Release(k.t.Context(), &bursarv1.ReleaseRequest{Id: id})
	}
	if err != nil {
		k.fail("give back", err)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.acknowledged, id)
}

// fail reports a call that was not answered. Only forgetful clients must accept that.
func (k *churner) fail(what string, err error) {
	if !k.forgetful && k.t.Context().Err() == nil {
		k.t.Errorf("%s: %s: %v", k.name, what, err)
	}
}

//go:build linux

package ha

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// race is what clients do who want the few instances of an account, with the times at which they asked and were answered. Each attempt of a
// call stands for itself: one without an answer may take effect at any later time, as long as its allocation has not ended.
type race struct {
	*load
	mu      sync.Mutex
	history []porcupine.Operation // guarded by mu
	granted map[int32]string      // guarded by mu; the live allocations' ids, by the number of their request
	next    int32                 // guarded by mu; the number of the next request
	unknown int                   // guarded by mu
}

// racers is how many accounts are raced for.
const racers = 3

// attemptTime is how long an answer is waited for.
const attemptTime = 3 * time.Second

// startRace has four clients race for each account: one at each coordinator, and one at an agent.
func (l *load) startRace() {
	for account := range racers {
		places := []*client.Client{l.hosts[account].local.With(client.WithoutRetries())}
		for _, m := range l.members {
			places = append(places, m.direct)
		}
		for i, place := range places {
			r := &racer{race: l.racing, account: account, at: place, local: i == 0, id: account*len(places) + i}
			r.random = rand.New(rand.NewPCG(l.seed, uint64(2000+r.id)))
			l.running.Go(func() { r.run(l.ctx) })
		}
	}
}

// racer is one of the clients.
type racer struct {
	*race
	account, id int
	at          *client.Client
	local       bool // it calls an agent, which serves no quotas
	random      *rand.Rand
}

func (r *racer) user() string { return fmt.Sprintf("racer%d", r.account) }

func (r *racer) run(ctx context.Context) {
	for ctx.Err() == nil && !r.t.Failed() {
		r.steps.RLock()
		number := r.number()
		if id := r.take(number); id != "" {
			think(ctx, r.random, 300*time.Millisecond)
			r.look()
			r.giveBack(number, id)
		}
		r.look()
		r.steps.RUnlock()
		think(ctx, r.random, 500*time.Millisecond)
	}
}

func (r *race) number() int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	return r.next
}

// clock is the time of the history.
func (r *race) clock() int64 { return int64(time.Since(r.began)) }

// did adds an operation to the history.
func (r *racer) did(call int64, what wish, got answer) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, porcupine.Operation{ClientId: r.id, Input: what, Call: call, Output: got, Return: r.clock()})
	if got.unknown {
		r.unknown++
	}
	return len(r.history) - 1
}

// until is when operations without an answer are over: they change nothing any more.
func (r *racer) until(operations []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range operations {
		r.history[i].Return = r.clock()
	}
}

// take asks for one instance. Where an attempt was not answered it goes on until one is granted, so that all is known in the end. It
// returns the id, or nothing where the answer was no.
func (r *racer) take(number int32) (id string) {
	request := r.request(number)
	var unknown []int
	deadline := time.Now().Add(2 * patience)
	for {
		call := r.clock()
		attempt, cancel := context.WithTimeout(r.t.Context(), attemptTime)
		res, err := r.at.Allocations().Allocate(attempt, request)
		cancel()
		short, no := client.Insufficient(err)
		switch {
		case err == nil:
			id = res.GetAllocation().GetId()
			r.did(call, wish{account: r.account, kind: take, number: number}, answer{ok: true})
			r.mu.Lock()
			r.granted[number] = id
			r.mu.Unlock()
			r.book.acknowledged(res.GetAllocation(), r.local)
			r.until(unknown)
			r.pending(number, unknown)
			return id
		case no:
			if r.blames(short) { // else it is for lack of a host, and says nothing of the account
				r.did(call, wish{account: r.account, kind: take, number: number}, answer{})
			}
			if len(unknown) == 0 {
				return ""
			}
		case !errors.Is(err, syscall.ECONNREFUSED): // nobody was there to hear it
			unknown = append(unknown, r.did(call, wish{account: r.account, kind: take, number: number}, answer{unknown: true}))
		}
		if r.t.Context().Err() != nil || r.t.Failed() {
			return ""
		}
		if time.Now().After(deadline) {
			r.t.Errorf("racer %d: request %d was not answered: %v", r.id, number, err)
			return ""
		}
		think(r.t.Context(), r.random, time.Second)
	}
}

// pending remembers attempts without an answer until the allocation has ended.
func (r *racer) pending(number int32, unknown []int) {
	if len(unknown) > 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, i := range unknown {
			r.history[i].Metadata = number
		}
	}
}

func (r *racer) request(number int32) *bursarv1.AllocateRequest {
	one, cpu := int64(1), int64(10)
	return &bursarv1.AllocateRequest{
		RequestId: fmt.Sprintf("race-%d", number),
		Labels:    map[string]string{"user": r.user(), "creator": "racer", "engineType": "test"},
		Resource:  &bursarv1.Resource{Instances: &one, CpuMillis: &cpu},
	}
}

// blames reports whether a refusal was for lack of the account.
func (r *racer) blames(short *bursarv1.InsufficientResources) bool {
	for _, s := range short.GetShortfalls() {
		if s.GetAccount().GetLabels()["creator"] == "racer" {
			return true
		}
	}
	return false
}

// giveBack releases until that is answered.
func (r *racer) giveBack(number int32, id string) {
	r.book.now(id, reserved, released)
	var unknown []int
	deadline := time.Now().Add(2 * patience)
	for {
		call := r.clock()
		ctx, cancel := context.WithTimeout(r.t.Context(), attemptTime)
		_, err := r.at.Allocations().Release(ctx, &bursarv1.ReleaseRequest{Id: id})
		cancel()
		what := wish{account: r.account, kind: give, number: number}
		switch {
		case err == nil:
			r.did(call, what, answer{ok: true})
			r.book.now(id, released)
			r.mu.Lock()
			for i := range r.history { // the attempts without an answer are over, too
				if r.history[i].Metadata == number {
					unknown = append(unknown, i)
				}
			}
			delete(r.granted, number)
			r.mu.Unlock()
			r.until(unknown)
			return
		case !errors.Is(err, syscall.ECONNREFUSED):
			unknown = append(unknown, r.did(call, what, answer{unknown: true}))
		}
		if r.t.Context().Err() != nil || r.t.Failed() {
			return
		}
		if time.Now().After(deadline) {
			r.t.Errorf("racer %d: release of %s was not answered: %v", r.id, id, err)
			return
		}
		think(r.t.Context(), r.random, time.Second)
	}
}

// look reads one allocation, or the account. What is not answered says nothing.
func (r *racer) look() {
	ctx, cancel := context.WithTimeout(r.t.Context(), attemptTime)
	defer cancel()
	r.mu.Lock()
	number, id := int32(0), ""
	for number, id = range r.granted { // any
		break
	}
	r.mu.Unlock()
	call := r.clock()
	if r.local || id != "" && r.random.IntN(2) == 0 {
		r.lookAt(ctx, call, number, id)
		return
	}
	labels := map[string]string{"user": r.user(), "creator": "racer"}
	res, err := r.at.Quotas().List(ctx, &bursarv1.QuotaServiceListRequest{Labels: labels})
	if err != nil {
		return
	}
	held := 0
	for _, account := range res.GetAccounts() {
		if len(account.GetName().GetLabels()) == len(labels) {
			held = int(account.GetUsed().GetInstances() + account.GetReserved().GetInstances())
		}
	}
	r.did(call, wish{account: r.account, kind: count}, answer{held: held})
}

func (r *racer) lookAt(ctx context.Context, call int64, number int32, id string) {
	if id == "" {
		return
	}
	res, err := r.at.Allocations().Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: id})
	if err != nil {
		return
	}
	var account int
	if _, err := fmt.Sscanf(res.GetAllocation().GetLabels()["user"], "racer%d", &account); err != nil {
		r.t.Errorf("allocation %s is %v", id, res.GetAllocation())
		return
	}
	r.did(call, wish{account: account, kind: see, number: number}, answer{ok: res.GetAllocation().GetState() == reserved})
}

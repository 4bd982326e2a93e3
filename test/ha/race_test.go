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

// race is clients that want the few instances of an account, with the times of their calls and
// answers. An attempt without an answer may take effect at any later time, so its client repeats
// the same request until that is granted, or the same release until that is confirmed. All those
// attempts are one operation, which begins with the first that was not answered: if several take
// effect, only one changes anything.
type race struct {
	*load
	mu      sync.Mutex
	history []porcupine.Operation // guarded by mu
	// Guarded by mu; the live allocations' ids, by the number of their request.
	granted    map[int32]string
	next       int32 // guarded by mu; the number of the next request
	unanswered int   // guarded by mu; attempts without an answer
}

// racers is how many accounts are raced for.
const racers = 3

// attemptTime is how long an answer is waited for.
const attemptTime = 3 * time.Second

// startRace makes four clients race for each account: one at each coordinator, and one at an
// agent.
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
			r.read()
			r.giveBack(number, id)
		}
		r.read()
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
func (r *racer) did(call int64, what wish, got answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, porcupine.Operation{ClientId: r.id, Input: what, Call: call, Output: got, Return: r.clock()})
}

// attempts are those of one operation.
type attempts struct {
	*racer
	first    int64 // when the first began that was not answered; 0: none
	deadline time.Time
}

func (r *racer) attempts() *attempts {
	return &attempts{racer: r, deadline: time.Now().Add(2 * patience)}
}

// call makes one, and returns when the operation began.
func (a *attempts) call(attempt func(context.Context) error) (began int64, err error) {
	began = a.clock()
	ctx, cancel := context.WithTimeout(a.t.Context(), attemptTime)
	defer cancel()
	err = attempt(ctx)
	_, no := client.Insufficient(err)
	switch {
	case err == nil && a.first != 0:
		began = a.first
	// Otherwise no server was there.
	case err != nil && !no && !errors.Is(err, syscall.ECONNREFUSED):
		a.mu.Lock()
		a.unanswered++
		a.mu.Unlock()
		if a.first == 0 {
			a.first = began
		}
	}
	return began, err
}

// again waits before the next one; false: no more.
func (a *attempts) again(what string, err error) bool {
	if a.t.Context().Err() != nil || a.t.Failed() {
		return false
	}
	if time.Now().After(a.deadline) {
		a.t.Errorf("racer %d: %s was not answered: %v", a.id, what, err)
		return false
	}
	think(a.t.Context(), a.random, time.Second)
	return true
}

// take asks for one instance. It returns the id, or nothing if the answer was no.
func (r *racer) take(number int32) (id string) {
	request, what, all := r.request(number), wish{account: r.account, kind: take, number: number}, r.attempts()
	for {
		var granted *bursarv1.Allocation
		began, err := all.call(func(ctx context.Context) error {
			res, err := r.at.Allocations().Allocate(ctx, request)
			granted = res.GetAllocation()
			return err
		})
		if err == nil {
			r.did(began, what, answer{ok: true})
			r.book.acknowledged(granted, r.local)
			r.mu.Lock()
			r.granted[number] = granted.GetId()
			r.mu.Unlock()
			return granted.GetId()
		}
		if short, no := client.Insufficient(err); no {
			if r.blames(short) { // else it is for lack of a host, and says nothing of the account
				r.did(began, what, answer{})
			}
			if all.first == 0 {
				r.book.refused(request.GetRequestId())
				return ""
			}
		}
		if !all.again(request.GetRequestId(), err) {
			return ""
		}
	}
}

// giveBack releases until that is confirmed.
func (r *racer) giveBack(number int32, id string) {
	r.book.now(id, reserved, released)
	for all := r.attempts(); ; {
		began, err := all.call(func(ctx context.Context) error {
			_, err := r.at.Allocations().Release(ctx, &bursarv1.ReleaseRequest{Id: id})
			return err
		})
		if err == nil {
			r.did(began, wish{account: r.account, kind: give, number: number}, answer{ok: true})
			r.book.now(id, released)
			r.mu.Lock()
			delete(r.granted, number)
			r.mu.Unlock()
			return
		}
		if !all.again("release of "+id, err) {
			return
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

// read reads one allocation, or the account. What is not answered says nothing.
func (r *racer) read() {
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
		r.readOne(ctx, call, number, id)
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

func (r *racer) readOne(ctx context.Context, call int64, number int32, id string) {
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

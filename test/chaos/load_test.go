package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// What the 200 clients work on: a small host, and quotas that bind before it does.
const (
	clients     = 200
	clientUsers = 8
	loadConfig  = "capacity: {memory: 2GiB, cpu: 8, instances: 64, gpu: 4}\n"
	loadQuotas  = `quotas:
  - selector: {user: "*"}
    limit: {memory: 512MiB, cpu: 700m, instances: 16}
  - selector: {creator: batch}
    limit: {memory: 1GiB, gpu: 2}
`
)

// TestTwoHundredClientsNeverSeeAnOvercommit: whatever they ask for, confirm, resize, cancel, leave
// to expire or hand to the agent, by their own book no account ever gives more than it has, and in
// the end it has everything back.
func TestTwoHundredClientsNeverSeeAnOvercommit(t *testing.T) {
	seed, _ := randomness(t)
	c := startCluster(t, settings{agent: loadConfig, quotas: loadQuotas})
	host := amountsOf(c.host().GetAccount().GetLimit())
	if host["memory"] != 2<<30 || host["instances"] != 64 || host["gpu"] != 4 || host["cpu"] <= 0 || host["cpu"] > 8000 {
		t.Fatalf("the host gives %v", host)
	}
	limits := map[string]amounts{"host": host, "batch": {"memory": 1 << 30, "gpu": 2}}
	for user := range clientUsers {
		limits[userName(user)] = amounts{"memory": 512 << 20, "cpu": 700, "instances": 16}
	}
	load := &load{cluster: c, book: newBook(limits), refusals: map[string]int{}}

	ctx, cancel := context.WithTimeout(t.Context(), *loadFlag)
	defer cancel()
	began := time.Now()
	var working sync.WaitGroup
	for n := range clients {
		// Every other one comes over the agent's socket, which puts its own host into the request.
		target := c.address
		if n%2 == 0 {
			target = c.socket
		}
		w := &worker{
			load: load, client: c.client(target).Allocations(), local: n%2 == 0,
			random: rand.New(rand.NewPCG(seed, uint64(n)+1)), user: userName(n % clientUsers), name: fmt.Sprintf("w%d", n),
		}
		working.Go(func() { w.work(ctx) })
	}
	samples := c.watchAccounts(ctx)
	working.Wait()
	took := time.Since(began)

	load.book.mu.Lock()
	grants, violations, highest := load.book.grants, load.book.violations, load.book.highest
	load.book.mu.Unlock()
	for _, violation := range violations[:min(len(violations), 3)] {
		t.Error(violation)
	}
	c.expectEmpty(15 * time.Second)
	t.Logf("%d clients in %s: %d grants (%.0f/s), %d waits that ended in vain, %d real processes, %d looks at the accounts",
		clients, took.Round(time.Second), grants, float64(grants)/took.Seconds(), load.waits.Load(), load.processes.Load(), samples)
	t.Logf("refused for lack of: %v", load.refusals)
	t.Logf("the most that was held at once: host %v of %v, %s %v", highest["host"], host, userName(0), highest[userName(0)])
	// A book that was never near a limit would have shown nothing.
	if highest["host"]["memory"] < host["memory"]/2 || highest[userName(0)]["memory"] < 256<<20 || grants < clients {
		t.Error("too little load to show anything")
	}
}

func userName(n int) string { return fmt.Sprintf("user%d", n) }

// watchAccounts checks the server's own accounts until ctx ends, and returns how often it did.
func (c *cluster) watchAccounts(ctx context.Context) (samples int) {
	c.t.Helper()
	for ; ctx.Err() == nil; samples++ {
		for _, account := range append(c.quotaAccounts(), c.host().GetAccount()) {
			held := amountsOf(account.GetUsed()).plus(amountsOf(account.GetReserved()))
			for dimension, limit := range amountsOf(account.GetLimit()) {
				if held[dimension] > limit {
					c.t.Errorf("account %v: %s: %d held, limit %d", account.GetName(), dimension, held[dimension], limit)
				}
			}
		}
		if samples%10 == 0 {
			c.audited()
		}
		rest(ctx, 100*time.Millisecond)
	}
	return samples
}

// load is what the workers share.
type load struct {
	*cluster
	book             *book
	waits, processes atomic.Int64

	mu       sync.Mutex
	refusals map[string]int // guarded by mu; by what was short
}

// tally counts a refusal, once for each thing that was short.
func (l *load) tally(short *bursarv1.InsufficientResources) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range short.GetShortfalls() {
		kind := strings.ToLower(strings.TrimPrefix(s.GetAccount().GetKind().String(), "ACCOUNT_KIND_"))
		l.refusals[strings.TrimSpace(kind+" "+s.GetDimension()+" "+s.GetNote())]++
	}
}

// granted is an allocation that a worker holds.
type granted struct {
	*bursarv1.Allocation
	accounts []string
	expires  bool // it will not be confirmed
}

// enter puts a grant into the book.
func (l *load) enter(g granted, size amounts) {
	e := entry{size: size, accounts: g.accounts}
	if g.expires {
		// The coordinator's clock goes on from the time of day at its start, and may differ by
		// now.
		const apart = 100 * time.Millisecond
		e.until = g.GetExpireTime().AsTime().Add(-apart)
	}
	l.book.enter(g.GetId(), e)
}

// patience bounds each call beyond what it asked to wait for.
const patience = 30 * time.Second

// ask asks for something of any size. No grant is no failure, but it must say what was short.
func (w *worker) ask(ctx context.Context, r *bursarv1.AllocateRequest) (granted, bool) {
	ctx, cancel := context.WithTimeout(ctx, r.GetWait().AsDuration()+patience)
	defer cancel()
	began := time.Now()
	res, err := w.client.Allocate(ctx, r)
	took := time.Since(began)
	if took > r.GetWait().AsDuration()+patience/2 {
		w.t.Errorf("%s: a request that wanted to wait %s was answered after %s", w.name, r.GetWait().AsDuration(), took)
	}
	if err == nil {
		a := res.GetAllocation()
		// Those that are asked for briefly are left to expire.
		g := granted{Allocation: a, accounts: []string{"host", w.user}, expires: r.GetReservationTtl() != nil}
		if r.GetLabels()["creator"] == "batch" {
			g.accounts = append(g.accounts, "batch")
		}
		if a.GetState() == reserved {
			w.enter(g, amountsOf(a.GetEntitled()))
		}
		return g, true
	}
	short, ok := refused(err)
	if !ok {
		w.fail("allocate", err)
		return granted{}, false
	}
	if short.GetReason() == "waited" {
		w.waits.Add(1)
	} else {
		w.tally(short)
		w.checkShortfalls(short)
	}
	return granted{}, false
}

// checkShortfalls: a refusal names what was short, and it really was.
func (w *worker) checkShortfalls(short *bursarv1.InsufficientResources) {
	if len(short.GetShortfalls()) == 0 {
		w.t.Errorf("%s: refused (%s) without a shortfall", w.name, short.GetReason())
	}
	for _, s := range short.GetShortfalls() {
		if s.GetRequested() <= s.GetAvailable() && s.GetNote() == "" {
			w.t.Errorf("%s: refused for what was there: %v", w.name, s)
		}
	}
}

// fail reports a call that should have been answered, unless it was cut off by the end of the
// test.
func (w *worker) fail(what string, err error) {
	if w.t.Context().Err() == nil && !errors.Is(err, context.Canceled) {
		w.t.Errorf("%s: %s: %v", w.name, what, err)
	}
}

// leave takes a grant out of the book; its end must be asked for after this.
func (w *worker) leave(g granted) { w.book.leave(g.GetId()) }

// size draws what to ask for: often nothing in a dimension, sometimes explicitly so.
func (w *worker) size() *bursarv1.Resource {
	r := &bursarv1.Resource{}
	some := func(to **int64, step int64, most int) {
		switch w.random.IntN(4) {
		case 0: // unset
		case 1:
			*to = new(int64)
		default:
			n := step * int64(1+w.random.IntN(most))
			*to = &n
		}
	}
	some(&r.MemoryBytes, 16<<20, 16)
	some(&r.CpuMillis, 50, 8)
	some(&r.Instances, 1, 2)
	if r.Instances != nil {
		*r.Instances = max(1, *r.Instances) // an engine is at least one
	}
	if w.random.IntN(4) == 0 {
		r.Custom = map[string]int64{"gpu": int64(w.random.IntN(3))}
	}
	return r
}

// newRequest draws a request.
func (w *worker) newRequest(wait time.Duration) *bursarv1.AllocateRequest {
	w.asked++
	r := &bursarv1.AllocateRequest{
		RequestId: fmt.Sprintf("%s-%d", w.name, w.asked),
		Labels:    map[string]string{"user": w.user, "creator": "IDE"},
		Resource:  w.size(),
		Priority:  int32(w.random.IntN(3)) - 1,
	}
	if w.random.IntN(3) == 0 {
		r.Labels["creator"] = "batch"
	}
	if wait > 0 {
		r.Wait = milliseconds(wait)
	}
	return r
}

func (w *worker) String() string { return strings.Join([]string{w.name, w.user}, " as ") }

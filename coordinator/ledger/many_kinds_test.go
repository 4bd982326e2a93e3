package ledger_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// countingPlacer counts how often it is asked for a host: each request that is tried asks once, if
// its quotas allow it.
type countingPlacer struct {
	*plainPlacer
	asked int
}

func (p *countingPlacer) Choose(q ledger.Query) ledger.Slot {
	p.asked++
	return p.plainPlacer.Choose(q)
}

// tester is a test, a benchmark or a rapid check.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// crowd is a ledger with one host of 100 bytes and 100 cores, in which requests of many kinds wait.
type crowd struct {
	*ledger.Ledger
	placer   *countingPlacer
	sequence uint64
}

func newCrowd(t tester) *crowd {
	t.Helper()
	c := &crowd{placer: &countingPlacer{plainPlacer: newPlainPlacer()}}
	c.Ledger = ledger.New(ledger.Config{}, c.placer)
	capacity := resource.Vector{}.WithMemory(100).WithCPU(100)
	_, err := c.Register(start, ledger.RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: capacity})
	if err != nil {
		t.Fatal(err)
	}
	c.report(t, start, 100)
	return c
}

// report is a heartbeat of the host.
func (c *crowd) report(t tester, now ledger.Instant, available int64) {
	t.Helper()
	c.sequence++
	_, err := c.Sync(now, ledger.SyncCommand{
		HostID: "h1", Incarnation: 1, Sequence: c.sequence, Full: c.sequence == 1,
		Sample: &ledger.Sample{MemoryAvailable: &available, Time: ledger.Instant(c.sequence)},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// request asks for memory and cpu, and waits.
func (c *crowd) request(t tester, now ledger.Instant, user, job string, memory, cpu int64) ledger.Allocation {
	t.Helper()
	labels := label.Of("user", user)
	if job != "" {
		labels = label.Of("user", user, "job", job)
	}
	result, err := c.Allocate(now, ledger.AllocateCommand{
		Actor: identity.Local(), Labels: labels, Wait: time.Hour, Async: true, ReservationTTL: 24 * time.Hour,
		Resource: resource.NewResource(resource.Vector{}.WithMemory(memory).WithCPU(cpu)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return result.Allocation
}

// kinds lets so many requests, each of a kind of its own, wait for any host. They ask for more than
// half of the memory, but the last one asks for all cores instead, so that whatever becomes free
// may be enough for some of them.
func (c *crowd) kinds(t tester, n int, user func(i int) string) {
	t.Helper()
	for i := range n - 1 {
		if a := c.request(t, start, user(i), fmt.Sprint("j", i), 60, 0); a.State != ledger.Waiting {
			t.Fatalf("%s is %s; want waiting", a.ID, a.State)
		}
	}
	c.request(t, start, user(n-1), "wide", 1, 100)
}

// release ends an allocation. It does not let the ledger go on with what it left to later steps.
func (c *crowd) release(t tester, now ledger.Instant, a ledger.Allocation) {
	t.Helper()
	if _, err := c.Release(now, ledger.ReleaseCommand{Actor: identity.Local(), ID: a.ID}); err != nil {
		t.Fatal(err)
	}
}

// goOn does what is due at once, and returns how many steps that took.
func (c *crowd) goOn(now ledger.Instant) (steps int) {
	for due, set := c.NextTimer(); set && due <= now; due, set = c.NextTimer() {
		c.Advance(now)
		steps++
	}
	return steps
}

func (c *crowd) state(a ledger.Allocation) ledger.State {
	now, _ := c.Get(a.ID)
	return now.State
}

func eachItsUser(i int) string { return fmt.Sprintf("user%05d", i) }

// Requests of thousands of kinds wait behind one account, each too large for what becomes free. The
// one that fits is behind them all, and is still granted: no time must pass, and nothing else must
// become free.
func TestWhoFitsIsGrantedHoweverManyKindsWaitBeforeIt(t *testing.T) {
	for _, kinds := range []int{1, 40, 1023, 1024, 5000} {
		c := newCrowd(t)
		must(t, c.PutQuota(start, ledger.Quota{Limit: resource.Vector{}.WithMemory(4)}))
		runs, goesOn := c.request(t, start, "runner", "", 1, 0), c.request(t, start, "runner", "", 3, 0)
		first := c.request(t, start, eachItsUser(0), "", 2, 0)
		for i := 1; i < kinds; i++ {
			c.request(t, start, eachItsUser(i), "", 2, 0)
		}
		small := c.request(t, start, "zoe", "", 1, 0)
		now := start.Add(time.Second)
		c.release(t, now, runs)
		c.goOn(now)
		if got := c.state(small); got != ledger.Reserved {
			t.Errorf("behind %d kinds that do not fit, the one that does is %s; want reserved", kinds, got)
		}
		c.release(t, now, goesOn)
		c.goOn(now)
		if got := c.state(first); got != ledger.Reserved {
			t.Errorf("of %d kinds, the first is %s, although there is enough for it by now; want reserved", kinds, got)
		}
	}
}

// One engine ends and gives back to its quota and to its host. Thousands wait for the host, and
// alice alone behind the quota. She has her turn in the same step, and nobody who comes later
// passes her.
func TestManyWhoWaitElsewhereDoNotKeepOneFromHerTurn(t *testing.T) {
	for name, user := range map[string]func(int) string{
		"of many users": eachItsUser, "of one user": func(int) string { return "batch" },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t)
			selector, err := label.ParseSelector("user=alice")
			must(t, err)
			must(t, c.PutQuota(start, ledger.Quota{Selector: selector, Limit: resource.Vector{}.WithMemory(10)}))
			runs := c.request(t, start, "alice", "", 10, 1)
			c.request(t, start, "other", "", 45, 1)
			c.kinds(t, 1100, user)
			waits := c.request(t, start, "alice", "", 10, 1)
			c.release(t, start.Add(time.Second), runs)
			later := c.request(t, start.Add(time.Second), "alice", "new", 10, 1)
			if c.state(waits) != ledger.Reserved || later.State != ledger.Waiting {
				t.Errorf("she is %s, and who came later %s; want reserved, waiting", c.state(waits), later.State)
			}
		})
	}
}

// A step tries few of many kinds, and the marks of the others stay until they were tried, too.
func TestAStepTriesFewOfManyKinds(t *testing.T) {
	c := newCrowd(t)
	runs := c.request(t, start, "runner", "", 5, 1)
	c.request(t, start, "runner", "", 45, 1)
	c.kinds(t, 10_000, eachItsUser)
	c.goOn(start)
	now := start.Add(time.Second)
	c.placer.asked = 0
	c.release(t, now, runs)
	if c.placer.asked > 64 {
		t.Errorf("one step tried %d kinds; want at most 64", c.placer.asked)
	}
	steps := c.goOn(now)
	if c.placer.asked < 10_000 || c.placer.asked > 20_000 || steps > 400 {
		t.Errorf("%d kinds were tried in %d more steps; want each of 10000 once or twice, in at most 400", c.placer.asked, steps)
	}
}

// A report of a host that shows a little more memory, or less, makes no difference to anybody: no
// request is tried, for any who wait. One that shows enough for a request grants it.
func TestAReportThatChangesNothingTriesNobody(t *testing.T) {
	c := newCrowd(t)
	c.request(t, start, "runner", "", 5, 1)
	c.report(t, start, 40)
	c.kinds(t, 10_000, eachItsUser)
	small := c.request(t, start, "zoe", "", 38, 0)
	c.goOn(start)
	c.placer.asked = 0
	now := start
	for i := range int64(100) {
		now = now.Add(5 * time.Millisecond)
		c.report(t, now, 40+i%3) // 5 of it are promised
	}
	if c.placer.asked > 0 {
		t.Errorf("reports of a little more or less memory tried %d requests", c.placer.asked)
	}
	c.report(t, now, 43)
	c.goOn(now)
	if got := c.state(small); got != ledger.Reserved {
		t.Errorf("the host has enough for it now, and it is %s; want reserved", got)
	}
}

// However much becomes free, and when: once the steps that are due are done, nobody waits for what
// is free.
func TestNobodyOfThousandsWaitsForWhatIsFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCrowd(t)
		selector, _ := label.ParseSelector("user=*")
		if err := c.PutQuota(start, ledger.Quota{Selector: selector, Limit: resource.Vector{}.WithMemory(60)}); err != nil {
			t.Fatal(err)
		}
		now := start
		var running, waiting []ledger.Allocation
		request := func(user string, job int, memory, cpu int64) {
			a := c.request(t, now, user, fmt.Sprint("j", job), memory, cpu)
			if a.State == ledger.Waiting {
				waiting = append(waiting, a)
			} else {
				running = append(running, a)
			}
		}
		for i := range rapid.SampledFrom([]int{30, 300, 3000}).Draw(t, "kinds") {
			request(fmt.Sprint("u", i%rapid.SampledFrom([]int{1, 7, 1000}).Draw(t, "users")), i, int64(1+i*7%60), int64(i*11%50))
		}
		for range 20 {
			now = now.Add(100 * time.Millisecond)
			if len(running) > 0 && rapid.Bool().Draw(t, "release") {
				at := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				c.release(t, now, running[at])
				running = append(running[:at:at], running[at+1:]...)
			} else {
				request("u"+fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "user")), 10_000, rapid.Int64Range(1, 60).Draw(t, "memory"), 1)
			}
		}
		c.goOn(now)
		for _, a := range waiting {
			if c.state(a) != ledger.Waiting {
				continue
			}
			x, err := c.ExplainID(now, a.ID, identity.Actor{})
			if err != nil || x.Verdict == ledger.Fits {
				t.Fatalf("%s waits and fits: %v", a.ID, err)
			}
		}
	})
}

// BenchmarkReportBesideManyKinds is a heartbeat while 10,000 kinds of requests wait for any host.
func BenchmarkReportBesideManyKinds(b *testing.B) {
	c := newCrowd(b)
	c.request(b, start, "runner", "", 45, 1)
	c.kinds(b, 10_000, eachItsUser)
	c.goOn(start)
	b.ReportAllocs()
	b.ResetTimer()
	now := start
	for i := range b.N {
		now = now.Add(time.Millisecond)
		c.report(b, now, 99+int64(i%2))
	}
}

// More kinds are before a request than one step tries, and none of them fits. One that is alike and
// comes meanwhile does not pass it.
func TestWhoComesLaterDoesNotPassWhoIsAlikeAndNotTriedYet(t *testing.T) {
	c := newCrowd(t)
	runs := c.request(t, start, "runner", "", 20, 1)
	c.request(t, start, "runner", "", 75, 1)
	c.kinds(t, 1000, eachItsUser)
	first := c.request(t, start, "zoe", "", 10, 1)
	c.goOn(start)
	now := start.Add(time.Second)
	c.release(t, now, runs)
	if got := c.state(first); got != ledger.Waiting {
		t.Fatalf("%s is %s before its turn", first.ID, got)
	}
	later := c.request(t, now, "zoe", "", 10, 1)
	if later.State != ledger.Waiting {
		t.Errorf("who came later is %s, who is alike and came first is %s", later.State, c.state(first))
	}
	c.goOn(now)
	if c.state(first) != ledger.Reserved || c.state(later) != ledger.Reserved {
		t.Errorf("in the end they are %s and %s; want both reserved", c.state(first), c.state(later))
	}
}

// Thousands of requests that came at the same moment, or were restored, have waited for long at the
// same moment too. Nobody else waits until all of them were looked at: a step looks at a few.
func TestWhoHasWaitedForLongIsLookedForAFewAtATime(t *testing.T) {
	const kinds, most = 3000, 64
	c := newCrowd(t)
	c.request(t, start, "runner", "", 95, 0)
	c.kinds(t, kinds, eachItsUser)
	now := start.Add(59 * time.Minute)
	steps := 0
	for due, set := c.NextTimer(); set && due <= now; due, set = c.NextTimer() {
		before := c.placer.asked
		c.Advance(now)
		if asked := c.placer.asked - before; asked > 10*most {
			t.Fatalf("step %d asks for a host %d times; want at most ten times for each of %d", steps, asked, most)
		}
		steps++
	}
	if least := kinds / most; steps < least {
		t.Errorf("%d kinds were looked at in %d steps; want at least %d", kinds, steps, least)
	}
}

// A request that names a host which can never register would wait for nothing.
func TestARequestNamesAHostThatMayCome(t *testing.T) {
	c := newCrowd(t)
	for id, may := range map[string]bool{"h-2.site:1": true, "bad name": false, "a\nb\x1b[31m": false, "later,vm": false, "-h": false} {
		_, err := c.Allocate(start, ledger.AllocateCommand{
			Actor: identity.Local(), Labels: label.Of("user", "zoe"), Wait: time.Hour, Async: true,
			Resource: resource.NewResource(resource.Vector{}.WithMemory(1)), Wishes: &ledger.Wishes{Host: id},
		})
		if wrong, refused := errors.AsType[*ledger.FieldError](err); refused == may || refused && wrong.Field != "host.id" {
			t.Errorf("%q: %v", id, err)
		}
	}
}

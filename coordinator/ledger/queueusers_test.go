package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// usersQueue is the queue of crowded.
var usersQueue = resource.Address{Kind: yarnProd.Kind, Cluster: yarnProd.Cluster, Path: "root.q"}

// crowded is a ledger with a cluster that has one queue below the root, whose report says what a
// user may have there and what masters may.
func crowded(tb testing.TB, user, masters int64) (*ledger.Ledger, ledger.ClusterReport) {
	tb.Helper()
	l := ledger.New(ledger.Config{
		HostLiveBytes: 1 << 40, CallerLiveBytes: 1 << 40,
		Terms: func(ledger.ProviderRecord) ledger.Terms { return ledger.Terms{UserLabel: "user"} },
	}, newPlainPlacer())
	_, err := l.Register(start, ledger.RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(1 << 50)})
	must(tb, err)
	available := int64(1 << 50)
	_, err = l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available}})
	must(tb, err)
	must(tb, l.PutProvider(start, ledger.ProviderRecord{ClusterName: yarnProd}))
	r := ledger.ClusterReport{ClusterName: yarnProd, Asked: start, GoodFor: time.Hour, Settle: time.Minute, Queues: []ledger.QueueReport{
		{Path: "root", Limit: gib(1 << 16)},
		{
			Path: usersQueue.Path, Limit: gib(1<<16).With(resource.AMMemory, masters<<30), FirstIsFree: true,
			Users: &ledger.QueueUsers{Limit: gib(user)},
		},
	}}
	takeIn(tb, l, start, r)
	return l, r
}

// takeIn hands in a report and has it taken in as a whole.
func takeIn(tb testing.TB, l *ledger.Ledger, now ledger.Instant, r ledger.ClusterReport) {
	tb.Helper()
	r.Asked = now
	must(tb, l.ReportCluster(now, r))
	for l.TakingIn() {
		l.Advance(now)
	}
}

// userAsks has a user ask for a GiB of the queue, with a master of so many.
func userAsks(l *ledger.Ledger, user int, master int64, wait time.Duration) (ledger.Allocation, error) {
	name := fmt.Sprintf("u%05d", user)
	part := resource.External{Address: usersQueue, Vector: gib(1).With(resource.AMMemory, master<<30)}
	return ask(l, start, name, 1, func(c *ledger.AllocateCommand) {
		c.Resource.External, c.Wait, c.Async = []resource.External{part}, wait, wait > 0
	})
}

// All users' parts of a queue go over to a report in steps, whatever happens among them.
func TestManyUsersOfAQueueGoOverToAReportBySteps(t *testing.T) {
	const users, step = 60, 12
	l, r := crowded(t, 10, 1<<16)
	for u := range users {
		_, err := userAsks(l, u, 0, 0)
		must(t, err)
	}
	l.SetReadingStep(step)
	later := start.Add(time.Second)
	r.Asked, r.Queues[1].Users = later, &ledger.QueueUsers{Limit: gib(20), Listed: []ledger.UserReport{{User: "u00007", Limit: gib(30), Used: gib(5)}}}
	must(t, l.ReportCluster(later, r))
	before := 0
	for l.TakingIn() {
		sound(t, l)
		l.Advance(later)
		over := 0
		for i, u := range l.QueueUsers(usersQueue) {
			limit, others := u.Limit.Memory()>>30, u.Others.Memory()>>30
			switch {
			case limit == 10 && others == 0:
			case i != 7 && limit == 20 && others == 0, i == 7 && limit == 30 && others == 5:
				over++
			default:
				t.Fatalf("user %d has a limit of %d GiB, %d used by others", i, limit, others)
			}
		}
		if over > before+step/2 {
			t.Fatalf("%d users have gone over in one step", over-before)
		}
		before = over
		if over == users/2 { // one who comes meanwhile is of the new report; one who goes is not missed
			_, err := userAsks(l, users, 0, 0)
			must(t, err)
		}
	}
	for i, u := range l.QueueUsers(usersQueue) {
		if limit := u.Limit.Memory() >> 30; limit != 20 && (i != 7 || limit != 30) {
			t.Errorf("user %d has a limit of %d GiB in the end", i, limit)
		}
	}
	sound(t, l)
}

// When no master runs in a queue any more, whoever waits for one is tried, in steps if there are
// many users: one may start, and the others go on waiting.
func TestWhoeverWaitsForAMasterIsTriedBySteps(t *testing.T) {
	const users = 3000
	for name, waiting := range map[string][]int{"all wait": nil, "the last one waits": {users - 1}} {
		t.Run(name, func(t *testing.T) {
			l, _ := crowded(t, 1<<10, 1)
			for u := range users { // they have parts of the queue, but no masters
				_, err := userAsks(l, u, 0, 0)
				must(t, err)
			}
			first, err := userAsks(l, users, 5, 0)
			must(t, err)
			if waiting == nil {
				for u := range users {
					waiting = append(waiting, u)
				}
			}
			ids := make(map[ledger.ID]bool)
			for _, u := range waiting {
				a, err := userAsks(l, u, 2, time.Hour)
				must(t, err)
				ids[a.ID] = true
			}
			_, err = l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: first.ID})
			must(t, err)
			steps := 0
			for at, due := l.NextTimer(); due && at == start; at, due = l.NextTimer() {
				l.Advance(start)
				if steps++; steps > 10*users {
					t.Fatal("there is no end of it")
				}
			}
			granted := 0
			for id := range ids {
				if a, _ := l.Get(id); a.State == ledger.Reserved {
					granted++
				}
			}
			if granted != 1 {
				t.Errorf("%d of %d were granted after %d steps; want 1", granted, len(ids), steps)
			}
			sound(t, l)
		})
	}
}

// BenchmarkManyUsersOfAQueue has so many users with an allocation each in one queue: it takes in a
// report that changes what each may have, or the last master of the queue ends while one user waits
// for one. longest-us is the longest step; of each step the shortest time.
func BenchmarkManyUsersOfAQueue(b *testing.B) {
	const users = 5000
	b.Run("report", func(b *testing.B) {
		l, r := crowded(b, 10, 1<<20)
		for u := range users {
			_, err := userAsks(l, u, 0, 0)
			must(b, err)
		}
		now, least := start, []time.Duration(nil)
		for b.Loop() {
			now++
			r.Asked, r.Queues[1].Users = now, &ledger.QueueUsers{Limit: gib(10 + int64(now)%2)}
			must(b, r.Prepare())
			at := 0
			step := func(do func()) {
				if at == len(least) {
					least = append(least, time.Hour)
				}
				least[at] = min(least[at], took(do))
				at++
			}
			step(func() { must(b, l.ReportCluster(now, r)) })
			for l.TakingIn() {
				step(func() { l.Advance(now) })
			}
		}
		b.ReportMetric(float64(slices.Max(least).Nanoseconds())/1000, "longest-us")
	})
	b.Run("release", func(b *testing.B) {
		l, _ := crowded(b, 1<<20, 1)
		for u := range users {
			_, err := userAsks(l, u, 0, 0)
			must(b, err)
		}
		least := []time.Duration(nil)
		for b.Loop() {
			first, err := userAsks(l, 0, 5, 0)
			must(b, err)
			waits, err := userAsks(l, users-1, 2, time.Hour)
			must(b, err)
			at := 0
			step := func(do func()) {
				if at == len(least) {
					least = append(least, time.Hour)
				}
				least[at] = min(least[at], took(do))
				at++
			}
			step(func() {
				_, err := l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: first.ID})
				must(b, err)
			})
			for due, more := l.NextTimer(); more && due == start; due, more = l.NextTimer() {
				step(func() { l.Advance(start) })
			}
			if now, _ := l.Get(waits.ID); now.State != ledger.Reserved {
				b.Fatalf("the one that waited is %s", now.State)
			}
			_, err = l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: waits.ID})
			must(b, err)
			l.Durable(start, l.Changes().Revision)
		}
		b.ReportMetric(float64(slices.Max(least).Nanoseconds())/1000, "longest-us")
	})
}

package ledger_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// Whatever a host's agent reports, with any numbers and any ids, what others have, wait for and
// are granted is as if it had reported nothing.
func TestNothingThatAHostReportsReachesAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string) int64 {
			return rapid.SampledFrom([]int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, 1 << 52, resource.MaxQuantity, math.MaxInt64 - 1, math.MaxInt64}).Draw(t, name)
		}
		optional := func(name string) *int64 { return new(number(name)) }
		l := ledger.New(ledger.Config{}, newPlainPlacer())
		at := start
		report := func(host string, sequence uint64, change func(*ledger.SyncCommand)) {
			c := ledger.SyncCommand{HostID: host, Incarnation: 1, Sequence: sequence, Full: sequence == 1, Seen: l.Revision()}
			c.Sample = &ledger.Sample{MemoryAvailable: new(int64(8)), Time: at}
			change(&c)
			if _, err := l.Sync(at, c); err != nil {
				t.Fatal(err)
			}
		}
		for _, host := range []string{"h1", "h2"} {
			if _, err := l.Register(at, ledger.RegisterCommand{HostID: host, Incarnation: 1, Capacity: resource.Vector{}.WithMemory(8).WithCPU(8)}); err != nil {
				t.Fatal(err)
			}
			report(host, 1, func(*ledger.SyncCommand) {})
		}
		ask := func(host string, memory int64, wait time.Duration) ledger.ID {
			result, err := l.Allocate(at, ledger.AllocateCommand{
				Actor: identity.Local(), Labels: label.Of("user", "alice"), Resource: resource.NewResource(resource.Vector{}.WithMemory(memory)),
				Wishes: &ledger.Wishes{Host: host}, Async: true, Wait: wait, ReservationTTL: time.Hour,
			})
			if err != nil {
				t.Fatal(err)
			}
			return result.Allocation.ID
		}
		active, reserved, waiting := ask("h1", 2, 0), ask("h1", 5, 0), ask("h1", 3, time.Hour)
		if _, err := l.Confirm(at, ledger.ConfirmCommand{Actor: identity.Local(), ID: active, Process: ledger.Process{PID: 1}}); err != nil {
			t.Fatal(err)
		}
		own := ask("h2", 1, 0)
		look := func() (list []any) {
			for _, id := range []ledger.ID{active, reserved, waiting} {
				a, _ := l.Get(id)
				list = append(list, a)
			}
			l.Hosts("", func(h ledger.HostInfo) bool {
				list = append(list, h)
				return false
			})
			return list
		}
		before := look()
		ids := []ledger.ID{active, reserved, waiting, own, 0, 1, math.MaxUint64}
		for i := range rapid.IntRange(1, 4).Draw(t, "reports") {
			report("h2", uint64(i)+2, func(c *ledger.SyncCommand) {
				c.Full, c.Seen, c.Digest = rapid.Bool().Draw(t, "full"), rapid.SampledFrom([]uint64{0, c.Seen, math.MaxUint64}).Draw(t, "seen"), 7
				c.Sample = &ledger.Sample{
					MemoryTotal: optional("total"), MemoryAvailable: optional("available"), MemorySafety: number("safety"), CPUTotalMillis: optional("cpu"),
					CPUUsedMillis: optional("cpu used"), Load1Millis: optional("load"), SwapUsed: optional("swap"), Time: ledger.Instant(number("time")),
					Pressure: rapid.Bool().Draw(t, "pressure"), Processes: math.MaxInt32,
				}
				for _, id := range ids {
					if rapid.Bool().Draw(t, "engine") {
						r := ledger.EngineReport{
							ID: id, Measured: resource.Vector{}.WithMemory(number("measured")), Unreclaimable: number("unreclaimable"),
							OverUse: []ledger.OverUse{{Dimension: resource.Memory, Used: number("used"), Entitled: number("of"), Policy: ledger.PolicyKill, Since: ledger.Instant(number("since"))}},
						}
						a, _ := l.Get(id) // all that there is to know
						a.Process.PID, a.Labels = 1, label.Of("user", "mallory")
						a.Entitled = resource.NewResource(resource.Vector{}.WithMemory(number("entitled")))
						r.Grant = &a
						c.Engines = append(c.Engines, r)
					}
					if rapid.Bool().Draw(t, "ended") {
						c.Ended = append(c.Ended, ledger.EngineEnd{ID: id, Time: ledger.Instant(number("end"))})
					}
					if rapid.Bool().Draw(t, "veto") {
						c.Vetoes = append(c.Vetoes, ledger.Veto{ID: id, Headroom: number("headroom"), Revision: math.MaxUint64})
					}
				}
				if rapid.Bool().Draw(t, "capacity") {
					c.Capacity = new(resource.Vector{}.WithMemory(number("memory")).WithCPU(number("cores")))
				}
			})
			if diff := cmp.Diff(before, look()); diff != "" {
				t.Fatalf("(-before +after):\n%s", diff)
			}
			if v := l.Audit(); len(v) > 0 {
				t.Fatal(v)
			}
		}
		// Longer than it takes to be starved: what is held is looked at, and the host's numbers
		// with it.
		for range 30 {
			at = at.Add(4 * time.Second)
			l.Advance(at)
			report("h1", uint64(at), func(*ledger.SyncCommand) {})
		}
		if _, err := l.Release(at, ledger.ReleaseCommand{Actor: identity.Local(), ID: reserved}); err != nil {
			t.Fatal(err)
		}
		if a, _ := l.Get(waiting); a.State != ledger.Reserved || a.HostID != "h1" {
			t.Fatalf("what waited for its turn on the other host is %s on %q", a.State, a.HostID)
		}
	})
}

// A host registers again as it likes. What others see of it changes, and nothing that is on others.
func TestAHostThatRegistersAnewMovesNobody(t *testing.T) {
	l := ready(t)
	held := reserve(t, l, "alice")
	register := func(incarnation uint64, labels label.Set, address string, memory int64) {
		t.Helper()
		_, err := l.Register(start, ledger.RegisterCommand{HostID: "h2", Incarnation: incarnation, Labels: labels, Address: address, Capacity: resource.Vector{}.WithMemory(memory)})
		must(t, err)
	}
	for i, memory := range []int64{0, 1, resource.MaxQuantity, 8} {
		register(uint64(i), label.Of("zone", "a", "n", string(rune('a'+i))), "elsewhere:1", memory)
		register(uint64(i), nil, "h1:7071", memory)
		if a, _ := l.Get(held.ID); !cmp.Equal(a, held) {
			t.Errorf("it was %+v and is %+v", held, a)
		}
		if v := l.Audit(); len(v) > 0 {
			t.Error(v)
		}
	}
	if err := l.Deregister(start, "h2", true); err != nil {
		t.Fatal(err)
	}
	if a, _ := l.Get(held.ID); !cmp.Equal(a, held) {
		t.Errorf("it was %+v and is %+v", held, a)
	}
}

// What a host reports that the ledger does not know is bounded.
func TestWhatAHostBringsIsBounded(t *testing.T) {
	l := ready(t)
	var engines []ledger.EngineReport
	for id := range ledger.ID(16_500) {
		engines = append(engines, ledger.EngineReport{ID: id + 1, Grant: &ledger.Allocation{Process: ledger.Process{PID: 1}}})
	}
	for i, taken := range []int{8192, 16_384, 16_384} { // half of them from the first report
		answer, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: uint64(i + 2), Full: true, Engines: engines})
		must(t, err)
		if len(answer.Grants) != taken || (answer.Action == ledger.ActionResync) != (i == 0) {
			t.Errorf("%d are taken in, and the agent is asked for %v", len(answer.Grants), answer.Action)
		}
	}
}

// A host may name allocations of others a thousand times, and not once more.
func TestHowOftenAHostMayTryWhatIsAnothersIsBounded(t *testing.T) {
	for guesses, want := range map[int]ledger.State{999: ledger.Active, 1000: ledger.Waiting} {
		tryWhatIsAnothers(t, guesses, want)
	}
}

func tryWhatIsAnothers(t *testing.T, guesses int, want ledger.State) {
	t.Helper()
	l := ready(t)
	reserve(t, l, "bob")
	result, err := l.Allocate(start, ledger.AllocateCommand{
		Actor: identity.Local(), Labels: label.Of("user", "alice"), Resource: resource.NewResource(resource.Vector{}.WithMemory(1 << 40)), Async: true, Wait: time.Hour,
	})
	must(t, err)
	waiting := result.Allocation
	_, err = l.Register(start, ledger.RegisterCommand{HostID: "h2", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(8)})
	must(t, err)
	var engines []ledger.EngineReport
	for range guesses { // and then the truth
		grant := waiting
		grant.Process.PID = 1
		grant.Created--
		engines = append(engines, ledger.EngineReport{ID: waiting.ID, Grant: &grant})
	}
	truth := waiting
	truth.Process.PID = 1
	engines = append(engines, ledger.EngineReport{ID: waiting.ID, Grant: &truth})
	answer, err := l.Sync(start, ledger.SyncCommand{HostID: "h2", Incarnation: 1, Sequence: 1, Full: true, Engines: engines})
	must(t, err)
	if answer.NotTaken.Count != guesses+1-len(answer.Grants) || answer.NotTaken.First.ID != waiting.ID {
		t.Errorf("after %d guesses %d are taken in, %d not", guesses, len(answer.Grants), answer.NotTaken.Count)
	}
	if a, _ := l.Get(waiting.ID); a.State != want {
		t.Errorf("after %d guesses it is %s: want %s", guesses, a.State, want)
	}
}

// The time that a report takes does not depend on where its ids are among all ids: other callers
// wait for it.
func TestAReportOfLowIDsTakesNoLongerThanOneOfHighIDs(t *testing.T) {
	const engines = 8000
	takes := func(first ledger.ID, step int64) time.Duration {
		l := ready(t)
		report := func(host string, first ledger.ID, step int64, n int) time.Duration {
			_, err := l.Register(start, ledger.RegisterCommand{HostID: host, Incarnation: 1})
			must(t, err)
			c := ledger.SyncCommand{HostID: host, Incarnation: 1, Sequence: 9, Full: true}
			for i := range n {
				id := ledger.ID(int64(first) + step*int64(i))
				c.Engines = append(c.Engines, ledger.EngineReport{ID: id, Grant: &ledger.Allocation{Process: ledger.Process{PID: 1}}})
			}
			return took(func() {
				_, err = l.Sync(start, c)
				must(t, err)
			})
		}
		for i := range 4 {
			report(string(rune('a'+i)), ledger.ID(1e6*(i+1)), 1, engines)
		}
		return report("z", first, step, engines)
	}
	wantRatio(t, "a report of ids below all others, not above,", 5,
		func() time.Duration { return takes(1e7, 1) }, func() time.Duration { return takes(engines, -1) })
}

// Whatever ids an agent brings, in whatever order, and whatever becomes of them: all that lives is
// listed by id.
func TestIDsThatAgentsBringAreListedInOrder(t *testing.T) {
	l := ready(t)
	sequence := uint64(1)
	report := func(ids ...ledger.ID) {
		t.Helper()
		sequence++
		c := ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: sequence, Full: true, Seen: l.Revision()}
		for _, id := range ids {
			c.Engines = append(c.Engines, ledger.EngineReport{ID: id, Grant: &ledger.Allocation{Process: ledger.Process{PID: 1}}})
		}
		_, err := l.Sync(start, c)
		must(t, err)
		want := slices.Clone(ids)
		for _, id := range []ledger.ID{reserve(t, l, "alice").ID, reserve(t, l, "bob").ID} {
			_, err := l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: id})
			must(t, err)
		}
		want = append(want, reserve(t, l, "carol").ID)
		slices.Sort(want)
		var got []ledger.ID
		l.Allocations(0, func(a *ledger.Allocation) bool {
			got = append(got, a.ID)
			return true
		})
		if !slices.Equal(got, want) {
			t.Fatalf("listed are %d: want %d", got, want)
		}
		_, err = l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: got[slices.IndexFunc(got, func(id ledger.ID) bool { return !slices.Contains(ids, id) })]})
		must(t, err)
	}
	report(9, 3, 7, 1)
	report(2, 3, 8, 1, math.MaxUint64-1, math.MaxUint64-3)
	report()
	report(8, 3, 1, 9, 2, 7, math.MaxUint64-3, math.MaxUint64-1)
	for n := range ledger.ID(200) { // so many that the order is tidied
		report(200-n, 300+n, math.MaxUint64-n-1)
	}
}

// An adopted engine with somebody's request id is the answer to a request that is like it. A
// request for anything else with that id gets its own allocation, and the engine has no request id
// from then on.
func TestWhatAnAgentBringsAnswersOnlyWhatIsLikeIt(t *testing.T) {
	like := func() ledger.AllocateCommand {
		return ledger.AllocateCommand{
			Actor: identity.Local(), RequestID: "r1", RequestHash: 7, Labels: label.Of("user", "carol"),
			Resource: resource.NewResource(resource.Vector{}.WithMemory(2)),
		}
	}
	wish := func(w ledger.Wishes) func(*ledger.AllocateCommand) {
		return func(c *ledger.AllocateCommand) { c.Wishes = &w }
	}
	for name, test := range map[string]struct {
		change func(*ledger.AllocateCommand)
		alike  bool
	}{
		"the same":             {func(*ledger.AllocateCommand) {}, true},
		"for this host":        {wish(ledger.Wishes{Host: "h1"}), true},
		"with its labels":      {wish(ledger.Wishes{Required: label.Of("zone", "a")}), true},
		"not on another":       {wish(ledger.Wishes{Avoid: []string{"h2"}}), true},
		"to wait":              {func(c *ledger.AllocateCommand) { c.Wait = time.Minute }, true},
		"one instance":         {func(c *ledger.AllocateCommand) { c.Resource.Vector = c.Resource.WithInstances(1) }, true},
		"rounded to the same":  {func(c *ledger.AllocateCommand) { c.Resource.Vector = c.Resource.WithMemory(1) }, true},
		"two instances":        {func(c *ledger.AllocateCommand) { c.Resource.Vector = c.Resource.WithInstances(2) }, false},
		"more":                 {func(c *ledger.AllocateCommand) { c.Resource.Vector = c.Resource.WithMemory(3) }, false},
		"another user":         {func(c *ledger.AllocateCommand) { c.Labels = label.Of("user", "dave") }, false},
		"more labels":          {func(c *ledger.AllocateCommand) { c.Labels = c.Labels.With("creator", "IDE") }, false},
		"another priority":     {func(c *ledger.AllocateCommand) { c.Priority = 1 }, false},
		"for another host":     {wish(ledger.Wishes{Host: "h2"}), false},
		"with other labels":    {wish(ledger.Wishes{Required: label.Of("zone", "b")}), false},
		"not on this host":     {wish(ledger.Wishes{Avoid: []string{"h1"}}), false},
		"the id, another name": {func(c *ledger.AllocateCommand) { c.Actor.Name = "gateway" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := ledger.New(ledger.Config{}, newPlainPlacer())
			must(t, l.SetQuotas(start, "api", []ledger.Quota{{Normalization: &resource.Normalization{Increment: resource.Vector{}.WithMemory(2)}}}))
			for i, host := range []string{"h1", "h2"} {
				_, err := l.Register(start, ledger.RegisterCommand{HostID: host, Incarnation: 1, Labels: label.Of("zone", string(rune('a'+i))), Capacity: resource.Vector{}.WithMemory(100)})
				must(t, err)
				c := ledger.SyncCommand{HostID: host, Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: new(int64(100))}}
				if host == "h1" {
					r := resource.NewResource(resource.Vector{}.WithMemory(2).WithInstances(1))
					c.Engines = []ledger.EngineReport{{ID: 77, Grant: &ledger.Allocation{
						Caller: "local", RequestID: "r1", RequestHash: 8, Labels: label.Of("user", "carol"), Requested: r, Entitled: r, Process: ledger.Process{PID: 1},
					}}}
				}
				_, err = l.Sync(start, c)
				must(t, err)
			}
			c := like()
			test.change(&c)
			result, err := l.Allocate(start, c)
			must(t, err)
			if (result.Allocation.ID == 77) != test.alike {
				t.Errorf("the answer is %s on %s", result.Allocation.ID, result.Allocation.HostID)
			}
			again, err := l.Allocate(start, c)
			must(t, err)
			if again.Allocation.ID != result.Allocation.ID {
				t.Errorf("the same once more is %s, not %s", again.Allocation.ID, result.Allocation.ID)
			}
			brought, _ := l.Get(77)
			if !brought.Adopted() || (brought.RequestID == "") == (test.alike || c.Actor.Name == "gateway") {
				t.Errorf("the engine has the request id %q", brought.RequestID)
			}
			if v := l.Audit(); len(v) > 0 {
				t.Error(v)
			}
		})
	}
}

// What a rule refuses is like nothing, not even an engine of which its agent cannot say what was
// requested.
func TestARefusedRequestIsNotAnsweredWithWhatAnAgentBrings(t *testing.T) {
	l := ready(t)
	_, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2, Full: true, Engines: []ledger.EngineReport{{
		ID: 77, Grant: &ledger.Allocation{Caller: "local", RequestID: "r1", Process: ledger.Process{PID: 1}},
	}}})
	must(t, err)
	must(t, l.SetQuotas(start, "api", []ledger.Quota{{Normalization: &resource.Normalization{Maximum: resource.Vector{}.WithMemory(1)}}}))
	result, err := l.Allocate(start, ledger.AllocateCommand{
		Actor: identity.Local(), RequestID: "r1", RequestHash: 7, Resource: resource.NewResource(resource.Vector{}.WithMemory(2)),
	})
	if kind(err) != "field" || result.Allocation.ID != 0 {
		t.Errorf("the answer is %s, %v", result.Allocation.ID, err)
	}
}

// A request id that another allocation has, live or ended, stays with that one.
func TestARequestIDThatIsTakenIsNotAnAgentsToGive(t *testing.T) {
	for _, ended := range []bool{false, true} {
		l := ready(t)
		c := ledger.AllocateCommand{Actor: identity.Local(), RequestID: "r1", RequestHash: 7, Resource: resource.NewResource(resource.Vector{}.WithMemory(1))}
		first, err := l.Allocate(start, c)
		must(t, err)
		if ended {
			_, err := l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: first.Allocation.ID})
			must(t, err)
		}
		_, err = l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2, Full: true, Engines: []ledger.EngineReport{{
			ID: 77, Grant: &ledger.Allocation{Caller: "local", RequestID: "r1", Requested: first.Allocation.Requested, Process: ledger.Process{PID: 1}},
		}}})
		must(t, err)
		again, err := l.Allocate(start, c)
		must(t, err)
		if brought, _ := l.Get(77); again.Allocation.ID != first.Allocation.ID || again.Ended != ended || brought.RequestID != "" || brought.State != ledger.Active {
			t.Errorf("ended %t: the answer is %s, ended %t; what was brought is %s and has the request id %q",
				ended, again.Allocation.ID, again.Ended, brought.State, brought.RequestID)
		}
	}
}

package ledger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// liveWorld is a ledger with hosts that have room for everything but bytes.
type liveWorld struct {
	*testing.T

	ledger *ledger.Ledger
	now    ledger.Instant
}

func newLiveWorld(t *testing.T, config ledger.Config, hosts ...string) *liveWorld {
	w := &liveWorld{t, ledger.New(config, newPlainPlacer()), start}
	for _, host := range hosts {
		capacity := resource.Vector{}.WithMemory(1 << 50).WithCPU(1 << 40)
		_, err := w.ledger.Register(w.now, ledger.RegisterCommand{HostID: host, Incarnation: 1, Capacity: capacity})
		must(t, err)
		w.sync(host, 1)
	}
	return w
}

func (w *liveWorld) sync(host string, sequence uint64) ledger.SyncResult {
	w.Helper()
	available := int64(1 << 50)
	result, err := w.ledger.Sync(w.now, ledger.SyncCommand{
		HostID: host, Incarnation: 1, Sequence: sequence, Full: true, Seen: w.ledger.Revision(),
		Sample: &ledger.Sample{Time: w.now, MemoryAvailable: &available},
	})
	must(w.T, err)
	return result
}

func (w *liveWorld) allocate(caller, requestID, host string, bytes int, wait time.Duration) (ledger.Allocation, error) {
	c := ledger.AllocateCommand{
		Actor: identity.Actor{Name: caller, Anyone: true}, RequestID: requestID, Async: true, Wait: wait,
		Resource: resource.NewResource(resource.Vector{}.WithMemory(1)),
		Labels:   label.Set{{Key: "note", Value: strings.Repeat("x", bytes)}, {Key: "user", Value: "u"}},
	}
	if host != "" {
		c.Wishes = &ledger.Wishes{Host: host}
	}
	result, err := w.ledger.Allocate(w.now, c)
	return result.Allocation, err
}

func (w *liveWorld) release(id ledger.ID) {
	w.Helper()
	_, err := w.ledger.Release(w.now, ledger.ReleaseCommand{Actor: identity.Local(), ID: id})
	must(w.T, err)
}

func (w *liveWorld) audit() {
	w.Helper()
	for _, v := range w.ledger.Audit() {
		w.Fatalf("audit: invariant %d: %s", v.Invariant, v.Message)
	}
}

func TestAHostWithAsManyRowsAsItsAgentCanBeToldOfGetsNoMore(t *testing.T) {
	w := newLiveWorld(t, ledger.Config{HostLiveBytes: 20 << 10}, "h1")
	var granted []ledger.Allocation
	for {
		// one of them gets no more than half
		a, err := w.allocate([]string{"mallory", "trudy"}[len(granted)%2], "", "h1", 4000, 0)
		if err != nil {
			short, ok := errors.AsType[*ledger.InsufficientError](err)
			if !ok || len(short.Shortfalls) != 1 || short.Shortfalls[0].Note != ledger.NoteRefused || !strings.Contains(short.Shortfalls[0].Detail, "20480") ||
				short.Shortfalls[0].Account.String() != "host h1" {
				t.Fatalf("got %v", err)
			}
			break
		}
		if granted = append(granted, a); len(granted) > 10 {
			t.Fatal("there is no bound")
		}
	}
	info, _ := w.ledger.Host("h1")
	if !strings.Contains(info.Unavailable, "its agent can be sent") || w.ledger.Counts().HostsRefusing != 1 {
		t.Errorf("the host says %q, and %d refuse", info.Unavailable, w.ledger.Counts().HostsRefusing)
	}
	// A request for any host does not get there either, and waits.
	waiting, err := w.allocate("alice", "", "", 10, time.Hour)
	must(t, err)
	if waiting.State != ledger.Waiting {
		t.Fatalf("it is %s", waiting.State)
	}
	x, err := w.ledger.ExplainID(w.now, waiting.ID, identity.Actor{})
	must(t, err)
	if len(x.Shortfalls) != 1 || x.Shortfalls[0].Note != ledger.NoteRefused {
		t.Errorf("explained by %v", x.Shortfalls)
	}
	// What is there goes on: it is confirmed, and stopped.
	_, err = w.ledger.Confirm(w.now, ledger.ConfirmCommand{
		Actor: identity.Local(), ID: granted[0].ID, Process: ledger.Process{PID: 7, Cgroup: strings.Repeat("/slice", 50), BootID: strings.Repeat("b", 36)},
		Address: "h1.example.com:12345", ApplicationIDs: []string{"application_1700000000000_0001"},
	})
	must(t, err)
	_, err = w.ledger.Stop(w.now, ledger.StopCommand{Actor: identity.Local(), ID: granted[0].ID, Reason: "enough"})
	must(t, err)
	// But it does not grow beyond what a row has room for.
	ids := make([]string, 64)
	for i := range ids {
		ids[i] = fmt.Sprintf("application_%0100d", i)
	}
	_, err = w.ledger.Confirm(w.now, ledger.ConfirmCommand{Actor: identity.Local(), ID: granted[1].ID, Lease: time.Hour, ApplicationIDs: ids})
	if _, short := errors.AsType[*ledger.InsufficientError](err); !short {
		t.Errorf("a confirmation of 7 KB on a full host: %v", err)
	}
	w.audit()
	w.release(granted[2].ID)
	if a, _ := w.ledger.Get(waiting.ID); a.State != ledger.Reserved {
		t.Errorf("once there was room the one that waited is %s", a.State)
	}
	w.audit()
}

func TestEnginesThatRunAreAdoptedOnAFullHost(t *testing.T) {
	const most = 20 << 10
	w := newLiveWorld(t, ledger.Config{HostLiveBytes: most}, "h1")
	available := int64(1 << 50)
	c := ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2, Full: true, Sample: &ledger.Sample{Time: w.now + 1, MemoryAvailable: &available}}
	for i := range 100 {
		c.Engines = append(c.Engines, ledger.EngineReport{ID: ledger.ID(i + 1), Grant: &ledger.Allocation{
			Caller: "alice@h1", Process: ledger.Process{PID: int32(i + 1)}, Labels: label.Set{{Key: "user", Value: "alice"}},
			Entitled: resource.NewResource(resource.Vector{}.WithMemory(1)),
		}})
	}
	_, err := w.ledger.Sync(w.now, c)
	must(t, err)
	bytes := int64(0)
	w.ledger.HostAllocations("h1", func(a *ledger.Allocation) bool { bytes += a.LiveBytes(); return true })
	if bytes < 2*most || bytes > 2*most+4096 {
		t.Errorf("an agent that makes up engines got %d bytes of them adopted; want about twice %d", bytes, most)
	}
	if _, err := w.allocate("alice", "", "h1", 10, 0); err == nil {
		t.Error("the host gets new grants")
	}
	if has, all := w.ledger.CallerBytes("alice@h1"), w.ledger.RelayedBytes("h1"); has != 0 || all < bytes {
		t.Errorf("what an agent makes up is charged to a caller with %d bytes, and to its host with %d", has, all)
	}
	w.audit()
}

func TestOneCallerHasABoundOfLiveBytes(t *testing.T) {
	const most = 64 << 10
	w := newLiveWorld(t, ledger.Config{CallerLiveBytes: most}, "h1")
	var last ledger.Allocation
	fill := func(caller, host string, wait time.Duration) (full *ledger.LiveFullError) {
		t.Helper()
		for i := range 100 {
			a, err := w.allocate(caller, fmt.Sprint(i), host, 4000, wait)
			if err != nil {
				full, _ = errors.AsType[*ledger.LiveFullError](err)
				if full == nil {
					t.Fatal(err)
				}
				return full
			}
			last = a
		}
		t.Fatal("there is no bound")
		return nil
	}
	full := fill("mallory", "", 0)
	if full.Bytes <= most/2 || full.Bytes > most || full.Most != most || full.Bytes != w.ledger.CallerBytes("mallory") || !strings.Contains(full.Error(), "limits.callerLiveBytes") ||
		!strings.Contains(full.Error(), `caller "mallory"`) {
		t.Errorf("got %v of %+v", full, full)
	}
	w.audit()
	if a, err := w.allocate("mallory", "0", "", 4000, 0); err != nil || a.State != ledger.Reserved {
		t.Errorf("a repeat: %v, %v", a.State, err)
	}
	if _, err := w.allocate("alice", "0", "", 4000, 0); err != nil {
		t.Errorf("another caller: %v", err)
	}
	w.release(last.ID)
	if _, err := w.allocate("mallory", "again", "", 4000, 0); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
	// Callers that an agent makes up count together, and one of them leaves half to the others.
	if full := fill("x1@h1", "h1", 0); full.Most != most/2 {
		t.Errorf("one caller of an agent: %v", full)
	}
	if full := fill("x2@h1", "h1", 0); !strings.Contains(full.Error(), "callers of host h1") && full.Most != most/2 {
		t.Errorf("a second one: %v", full)
	}
	if full := fill("x3@h1", "h1", 0); !strings.Contains(full.Error(), "callers of host h1") {
		t.Errorf("a third one: %v", full)
	}
	if bytes := w.ledger.RelayedBytes("h1"); bytes > most {
		t.Errorf("callers of one host's agent have %d bytes", bytes)
	}
	w.audit()
}

// A caller whom the coordinator knows itself may be called like those of a host's agent, but they
// name their host.
func TestACallerCalledLikeOneOfAnAgentCountsAsItself(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Hour} { // granted at once, or later
		w := newLiveWorld(t, ledger.Config{}, "h1")
		if wait > 0 {
			_, err := w.ledger.Cordon(w.now, "h1", "")
			must(t, err)
		}
		a, err := w.allocate("alice@h1", "", "", 10, wait)
		must(t, err)
		w.audit()
		if wait > 0 {
			_, err := w.ledger.Uncordon(w.now, "h1")
			must(t, err)
			w.ledger.Advance(w.now)
			a, _ = w.ledger.Get(a.ID)
		}
		if bytes := w.ledger.RelayedBytes("h1"); a.HostID != "h1" || bytes != 0 {
			t.Errorf("it is on %q, and callers of h1 have %d bytes", a.HostID, bytes)
		}
		w.audit()
	}
}

// What makes a row larger than it had room for is refused, and changes nothing, if its caller or
// its host would get more bytes than they may have.
func TestARowGrowsUpToTheBoundsOfItsCallerAndItsHost(t *testing.T) {
	names, countables := make([]string, 64), resource.Vector{}
	for i := range names {
		names[i] = fmt.Sprintf("application_%030d", i)
	}
	for i := range 16 {
		countables = countables.With(fmt.Sprintf("c%060d", i), 0)
	}
	entitled := resource.NewResource(countables)
	confirm := func(c ledger.ConfirmCommand) func(*ledger.Ledger, ledger.ID) error {
		return func(l *ledger.Ledger, id ledger.ID) error {
			c.Actor, c.ID, c.Process = identity.Local(), id, ledger.Process{PID: 1}
			_, err := l.Confirm(start, c)
			return err
		}
	}
	nothing := func(*ledger.Ledger, ledger.ID) error { return nil }
	for name, test := range map[string]struct {
		before, grow func(*ledger.Ledger, ledger.ID) error
	}{
		"a confirmation that names applications":         {nothing, confirm(ledger.ConfirmCommand{ApplicationIDs: names})},
		"a confirmation that names countables":           {nothing, confirm(ledger.ConfirmCommand{Entitled: &entitled})},
		"a confirmation with a long address":             {nothing, confirm(ledger.ConfirmCommand{Address: strings.Repeat("a", 1000)})},
		"a confirmation that names further applications": {confirm(ledger.ConfirmCommand{}), confirm(ledger.ConfirmCommand{ApplicationIDs: names})},
		"a resize that names countables": {nothing, func(l *ledger.Ledger, id ledger.ID) error {
			_, err := l.Resize(start, ledger.ResizeCommand{Actor: identity.Local(), ID: id, Entitled: entitled})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			play := func(config ledger.Config, others int) (before, after ledger.Allocation, err error) {
				w := newLiveWorld(t, config, "h1")
				for range others {
					_, err := w.allocate("bob", "", "", 4000, 0)
					must(t, err)
				}
				before, err = w.allocate("alice", "", "", 10, 0)
				must(t, err)
				must(t, test.before(w.ledger, before.ID))
				before, _ = w.ledger.Get(before.ID)
				err = test.grow(w.ledger, before.ID)
				after, _ = w.ledger.Get(before.ID)
				w.audit()
				return before, after, err
			}
			small, large, err := play(ledger.Config{}, 0)
			must(t, err)
			if large.LiveBytes() <= small.LiveBytes() {
				t.Fatalf("it does not grow: %d bytes, then %d", small.LiveBytes(), large.LiveBytes())
			}
			other, err := newLiveWorld(t, ledger.Config{}, "h1").allocate("bob", "", "", 4000, 0)
			must(t, err)
			for _, side := range []struct {
				bound  ledger.Config
				others int
				detail string
			}{
				{ledger.Config{CallerLiveBytes: large.LiveBytes() + ledger.LiveOverhead}, 0, ""},
				{ledger.Config{HostLiveBytes: large.LiveBytes() + other.LiveBytes()}, 1, "its agent can be sent"},
				{ledger.Config{HostLiveBytes: 2 * large.LiveBytes()}, 0, "one caller may have"},
			} {
				bound := side.bound
				if _, after, err := play(bound, side.others); err != nil || after.LiveBytes() != large.LiveBytes() {
					t.Errorf("with just enough: %v", err)
				}
				bound.CallerLiveBytes, bound.HostLiveBytes = max(0, bound.CallerLiveBytes-1), max(0, bound.HostLiveBytes-1)
				before, after, err := play(bound, side.others)
				_, full := errors.AsType[*ledger.LiveFullError](err)
				refusal, short := errors.AsType[*ledger.InsufficientError](err)
				if short && !strings.Contains(refusal.Shortfalls[0].Detail, side.detail) {
					t.Errorf("the host is short of %v: want %q", refusal.Shortfalls[0], side.detail)
				}
				if full != (bound.CallerLiveBytes > 0) || short != (bound.HostLiveBytes > 0) || after.Revision != before.Revision {
					t.Errorf("with a byte too little: %v, and its revision is %d after %d", err, after.Revision, before.Revision)
				}
			}
		})
	}
}

// TestSumsOfLiveBytesAreRight runs random steps with bounds that are often reached, and adds
// everything up again after each step.
func TestSumsOfLiveBytesAreRight(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 36))
		const hostMost, callerMost = 24 << 10, 48 << 10
		config := ledger.Config{HostLiveBytes: hostMost, CallerLiveBytes: callerMost}
		w := newLiveWorld(t, config, "h1", "h2")
		store := newMirror()
		live := make(map[ledger.ID]ledger.Allocation)
		callers := []string{"a", "b", "x@h1", "y@h1"}
		refused := 0
		for step := range 150 {
			before := make(map[string]int64)
			for _, a := range live {
				if a.State.Holds() {
					before[a.HostID] += a.LiveBytes()
					before[a.HostID+" "+a.Caller] += a.LiveBytes()
				}
			}
			ids := slices.Sorted(func(yield func(ledger.ID) bool) {
				for id := range live {
					if !yield(id) {
						return
					}
				}
			})
			var id ledger.ID
			if len(ids) > 0 {
				id = ids[random.IntN(len(ids))]
			}
			switch n := random.IntN(10); {
			case n < 5:
				caller := callers[random.IntN(len(callers))]
				host := []string{"", "h1"}[random.IntN(2)]
				if strings.Contains(caller, "@") {
					host = "h1"
				}
				if _, err := w.allocate(caller, fmt.Sprint(random.IntN(1000)), host, random.IntN(6000), time.Duration(random.IntN(2))*time.Hour); err != nil {
					refused++
				}
			case n < 6:
				_, _ = w.ledger.Confirm(w.now, ledger.ConfirmCommand{Actor: identity.Local(), ID: id, Address: strings.Repeat("a", random.IntN(3000)), Process: ledger.Process{PID: 1}})
			case n < 7:
				_, _ = w.ledger.Stop(w.now, ledger.StopCommand{Actor: identity.Local(), ID: id, Reason: strings.Repeat("r", random.IntN(1000))})
			case n < 9:
				_, _ = w.ledger.Release(w.now, ledger.ReleaseCommand{Actor: identity.Local(), ID: id})
			default:
				w.now = w.now.Add(time.Second)
				w.ledger.Advance(w.now)
			}
			changes := w.ledger.Changes()
			store.fold(changes)
			for i := range changes.Transitions {
				a := changes.Transitions[i]
				if was := live[a.ID]; a.State == ledger.Reserved && was.State != ledger.Reserved &&
					(before[a.HostID] >= hostMost || before[a.HostID+" "+a.Caller] >= hostMost/2) && !slices.ContainsFunc(changes.Transitions, func(o ledger.Allocation) bool { return !o.State.Live() }) {
					t.Fatalf("seed %d: %s is granted on %s, which has %d bytes, %d of them of its caller", seed, a.ID, a.HostID, before[a.HostID], before[a.HostID+" "+a.Caller])
				}
				if live[a.ID] = a; !a.State.Live() {
					delete(live, a.ID)
				}
			}
			w.audit()
			sums := make(map[string]int64)
			for _, a := range live {
				sums[a.Caller] += a.LiveBytes() + ledger.LiveOverhead
			}
			for _, caller := range callers {
				// a stop's reason counts, and is never refused
				if got := w.ledger.CallerBytes(caller); got != sums[caller] || got > callerMost+2048 {
					t.Fatalf("seed %d: %s has %d bytes; want %d", seed, caller, got, sums[caller])
				}
			}
			if step%5 > 0 {
				continue
			}
			if report := store.compare(w.now, config, w.ledger); report != "" {
				t.Fatalf("seed %d: %s", seed, report)
			}
		}
		if refused == 0 {
			t.Errorf("seed %d: nothing was refused", seed)
		}
	}
}

// What a caller is charged for a live allocation is what that takes.
func TestALiveAllocationTakesNoMoreThanItCounts(t *testing.T) {
	const n = 20000
	w := newLiveWorld(t, ledger.Config{CallerLiveBytes: 1 << 40, HostLiveBytes: 1 << 40}, "h1")
	for name, play := range map[string]struct {
		bytes int
		host  string
		wait  time.Duration
		full  bool
	}{
		"granted, small": {bytes: 10}, "granted, large": {bytes: 4000},
		"waiting, small": {bytes: 10, wait: time.Hour, full: true}, "waiting, large": {bytes: 4000, wait: time.Hour, full: true},
	} {
		t.Run(name, func(t *testing.T) {
			if play.full {
				_, err := w.ledger.Cordon(w.now, "h1", "")
				must(t, err)
			}
			heap := func() int64 {
				w.ledger.Changes()
				w.ledger.Durable(w.now, w.ledger.Revision())
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return int64(m.HeapAlloc)
			}
			before, counted := heap(), w.ledger.CallerBytes("c")
			for i := range n {
				w.T = t
				_, err := w.allocate("c", fmt.Sprint(name, i), "", play.bytes, play.wait)
				must(t, err)
			}
			took, counts := (heap()-before)/n, (w.ledger.CallerBytes("c")-counted)/n
			t.Logf("%d bytes each, counted as %d", took, counts)
			if took > counts {
				t.Errorf("each takes %d bytes and counts as %d", took, counts)
			}
			runtime.KeepAlive(w)
		})
		_, err := w.ledger.Uncordon(w.now, "h1")
		must(t, err)
		goOn(w.ledger, w.now)
	}
}

package ledger_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// yarnProd is a cluster of the tests below.
var yarnProd = ledger.ClusterName{Kind: "yarn", Cluster: "prod"}

// ask allocates some memory for a user.
func ask(l *ledger.Ledger, now ledger.Instant, user string, memory int64, change ...func(*ledger.AllocateCommand)) (ledger.Allocation, error) {
	c := ledger.AllocateCommand{
		Actor: identity.Local(), Labels: label.Of("user", user), Resource: resource.NewResource(resource.Vector{}.WithMemory(memory)),
	}
	for _, f := range change {
		f(&c)
	}
	result, err := l.Allocate(now, c)
	return result.Allocation, err
}

// Time moves on with every command, and what is due by then ends before the command is applied.
func TestEveryCommandDoesFirstWhatIsDue(t *testing.T) {
	const late = 3 * time.Minute // a reservation lasts two
	here, someone := identity.Local(), label.Of("user", "bob")
	one := resource.NewResource(resource.Vector{}.WithMemory(1))
	for name, command := range map[string]func(l *ledger.Ledger, now ledger.Instant, id ledger.ID) error{
		"Advance": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error { l.Advance(now); return nil },
		"Allocate": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error {
			if _, err := ask(l, now, "bob", 1); err == nil {
				return errors.New("a grant on a host that was silent for so long")
			}
			return nil
		},
		"Explain": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error {
			_, err := l.Explain(now, ledger.AllocateCommand{Actor: here, Labels: someone, Resource: one})
			return err
		},
		"ExplainID": func(l *ledger.Ledger, now ledger.Instant, id ledger.ID) error {
			_, err := l.ExplainID(now, id, identity.Actor{})
			return err
		},
		"Confirm": func(l *ledger.Ledger, now ledger.Instant, id ledger.ID) error {
			_, err := l.Confirm(now, ledger.ConfirmCommand{Actor: here, ID: id})
			return err
		},
		"Release": func(l *ledger.Ledger, now ledger.Instant, id ledger.ID) error {
			_, err := l.Release(now, ledger.ReleaseCommand{Actor: here, ID: id})
			return err
		},
		"Cancel": func(l *ledger.Ledger, now ledger.Instant, id ledger.ID) error {
			_, err := l.Cancel(now, ledger.CancelCommand{Actor: here, ID: id})
			return err
		},
		"Renew": func(l *ledger.Ledger, now ledger.Instant, id ledger.ID) error {
			_, err := l.Renew(now, ledger.RenewCommand{Actor: here, ID: id})
			return err
		},
		"Resize": func(l *ledger.Ledger, now ledger.Instant, id ledger.ID) error {
			_, err := l.Resize(now, ledger.ResizeCommand{Actor: here, ID: id, Entitled: one})
			return err
		},
		"Stop": func(l *ledger.Ledger, now ledger.Instant, id ledger.ID) error {
			_, err := l.Stop(now, ledger.StopCommand{Actor: here, ID: id})
			return err
		},
		"Detach": func(l *ledger.Ledger, now ledger.Instant, id ledger.ID) error { l.Detach(now, id); return nil },
		"Register": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error {
			_, err := l.Register(now, ledger.RegisterCommand{HostID: "h2", Incarnation: 1})
			return err
		},
		"Sync": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error {
			_, err := l.Sync(now, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2})
			return err
		},
		"Heard": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error {
			l.Heard(now, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2})
			return nil
		},
		"Deregister": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error { return l.Deregister(now, "h1", false) },
		"Cordon": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error {
			_, err := l.Cordon(now, "h1", "")
			return err
		},
		"Uncordon": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error {
			_, err := l.Uncordon(now, "h1")
			return err
		},
		"Drain": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error {
			_, err := l.Drain(now, "h1", "", nil)
			return err
		},
		"SetQuotas": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error { return l.SetQuotas(now, "file:a", nil) },
		"SetSources": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error {
			return l.SetSources(now, map[string][]ledger.Quota{"file:a": nil})
		},
		"PutQuota": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error {
			return l.PutQuota(now, ledger.Quota{Limit: resource.Vector{}.WithMemory(1)})
		},
		"DeleteQuota": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error {
			return l.DeleteQuota(now, label.Selector{})
		},
		"ApplyQuotas": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error {
			_, err := l.ApplyQuotas(now, ledger.QuotaSet{})
			return err
		},
		"PutProvider": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error {
			return l.PutProvider(now, ledger.ProviderRecord{ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: "dev"}})
		},
		"DeleteProvider": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error { return l.DeleteProvider(now, yarnProd) },
		"SetProviders": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error {
			return l.SetProviders(now, "file:a", nil)
		},
		"ReplaceProviders": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error { return l.ReplaceProviders(now, nil) },
		"ReportCluster": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error {
			return l.ReportCluster(now, ledger.ClusterReport{ClusterName: yarnProd, Asked: now, GoodFor: time.Hour})
		},
		"ClusterSilent": func(l *ledger.Ledger, now ledger.Instant, _ ledger.ID) error {
			l.ClusterSilent(now, yarnProd, "away", false)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := ready(t)
			must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: yarnProd}))
			a := reserve(t, l, "alice")
			l.Durable(start, l.Revision())
			l.Changes()
			err := command(l, start.Add(late), a.ID)
			if gone, notFound := errors.AsType[*ledger.NotFoundError](err); err != nil && (!notFound || gone.ID != a.ID.String() && name != "DeleteQuota") {
				t.Errorf("the command says %v", err)
			}
			if _, live := l.Get(a.ID); live {
				t.Error("a reservation that was over lives on")
			}
			changes := l.Changes()
			if changes.Time != start.Add(late) {
				t.Errorf("the ledger's time is %s after the start; want %s", changes.Time.Sub(start), late)
			}
			if len(changes.Transitions) == 0 || changes.Transitions[0].ID != a.ID || changes.Transitions[0].State != ledger.Expired {
				t.Errorf("the first change is not that it expired: %+v", changes.Transitions)
			}
		})
	}
}

// What an allocation says of its times is when the commands came.
func TestAnAllocationTellsWhenItsStatesBegan(t *testing.T) {
	l := ready(t)
	second := func(n int) ledger.Instant { return start.Add(time.Duration(n) * time.Second) }
	must(t, l.PutQuota(start, ledger.Quota{Limit: resource.Vector{}.WithMemory(1)}))
	first, err := ask(l, second(1), "alice", 1)
	must(t, err)
	if first.WaitDeadline != 0 {
		t.Errorf("a request that does not wait has a deadline for that, %s after it", first.WaitDeadline.Sub(second(1)))
	}
	a, err := ask(l, second(1), "alice", 1, func(c *ledger.AllocateCommand) {
		c.Wait, c.Async, c.Wishes = time.Hour, true, &ledger.Wishes{Host: "h1"}
	})
	must(t, err)
	_, err = l.Release(second(2), ledger.ReleaseCommand{Actor: identity.Local(), ID: first.ID})
	must(t, err)
	_, err = l.Confirm(second(3), ledger.ConfirmCommand{Actor: identity.Local(), ID: a.ID})
	must(t, err)
	ended, err := l.Release(second(4), ledger.ReleaseCommand{Actor: identity.Local(), ID: a.ID})
	must(t, err)
	got := []ledger.Instant{ended.Created, ended.Reserved, ended.Confirmed, ended.Ended, ended.WaitDeadline}
	if want := []ledger.Instant{second(1), second(2), second(3), second(4), second(1 + 3600)}; !slices.Equal(got, want) {
		t.Errorf("created, reserved, confirmed, ended, and waits until %v; want %v", got, want)
	}
	unused := reserve(t, l, "bob")
	canceled, err := l.Cancel(second(5), ledger.CancelCommand{Actor: identity.Local(), ID: unused.ID})
	must(t, err)
	if unused.Expires == 0 || canceled.Expires != 0 || ended.Wishes != nil {
		t.Errorf("what has ended expires %d, and wishes for %v", canceled.Expires, ended.Wishes)
	}
}

func TestEachRequestHasItsTurn(t *testing.T) {
	p := &turns{newPlainPlacer(), nil}
	l := ledger.New(ledger.Config{}, p)
	for range 3 {
		_, _ = ask(l, start, "alice", 1)
	}
	if len(p.list) < 3 || len(slices.Compact(slices.Clone(p.list))) != len(p.list) {
		t.Errorf("turns %v; want another one each time", p.list)
	}
}

// panicking is a placer that panics on demand.
type panicking struct {
	*plainPlacer

	now bool
}

func (p *panicking) Choose(q ledger.Query) ledger.Slot {
	if p.now {
		panic("told to")
	}
	return p.plainPlacer.Choose(q)
}

// After a panic the ledger says which stored request caused it, so that it is not decided again;
// it names none that was decided before.
func TestAPanicHasTheRequestThatWasLookedAt(t *testing.T) {
	p := &panicking{plainPlacer: newPlainPlacer()}
	l := ledger.New(ledger.Config{}, p)
	culprit := func(command func()) (c ledger.Culprit) {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
			c = l.Culprit()
		}()
		p.now = true
		command()
		return c
	}
	_, err := l.Register(start, ledger.RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(8)})
	must(t, err)
	waits, err := ask(l, start, "alice", 1, func(c *ledger.AllocateCommand) { c.Wait, c.Async = time.Hour, true })
	must(t, err)
	if c := l.Culprit(); c.Request.ID != 0 {
		t.Errorf("nothing has happened, and %s is to blame", c.Request.ID)
	}
	memory := int64(8)
	c := culprit(func() {
		_, _ = l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &memory}})
	})
	if c.Request.ID != waits.ID || c.Early {
		t.Errorf("to blame is %s, early %t; want %s, which was to be granted", c.Request.ID, c.Early, waits.ID)
	}
}

// What is due by the time of a command happens before it, and is not its fault: then requests that
// wait for what becomes free are tried, and those that were passed over for too long.
func TestAPanicInWhatWasDueIsEarly(t *testing.T) {
	check := func(name string, others []int64, memory int64, after time.Duration, panics bool) {
		p := &panicking{plainPlacer: newPlainPlacer()}
		l := ledger.New(ledger.Config{}, p)
		large := int64(100)
		_, err := l.Register(start, ledger.RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(large)})
		must(t, err)
		_, err = l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &large}})
		must(t, err)
		must(t, l.PutQuota(start, ledger.Quota{Limit: resource.Vector{}.WithMemory(8)}))
		minute := func(c *ledger.AllocateCommand) { c.ReservationTTL = time.Minute }
		_, err = ask(l, start, "bob", others[0], minute)
		must(t, err)
		waits, err := ask(l, start, "alice", memory, func(c *ledger.AllocateCommand) { c.Wait, c.Async = time.Hour, true })
		must(t, err)
		for _, more := range others[1:] {
			_, err = ask(l, start, "bob", more, minute)
			must(t, err)
		}
		l.Durable(start, l.Revision())
		l.Advance(start.Add(after - 1))
		func() {
			defer func() {
				want := ledger.Culprit{}
				if panics {
					want.Request.ID, want.Early = waits.ID, true
				}
				if c := l.Culprit(); (recover() != nil) != panics || c.Early != want.Early || c.Request.ID != want.Request.ID {
					t.Errorf("%s, a panic: %t; to blame is %s, early %t; want %s", name, panics, c.Request.ID, c.Early, want.Request.ID)
				}
			}()
			p.now = panics
			l.Advance(start.Add(after))
		}()
	}
	for _, panics := range []bool{false, true} {
		check("a reservation is over", []int64{8}, 8, time.Minute, panics)
		check("smaller ones have gone past for 30s", []int64{6, 1}, 4, 30*time.Second, panics)
	}
}

// An agent may bring back ids of a coordinator whose clock was ahead. When this one's clock gets
// there, they are not given out again.
func TestAnIDThatAnAgentHasBroughtBackIsNotGivenOutAgain(t *testing.T) {
	ahead := start.Add(10 * time.Second)
	for _, number := range []int{1, 3} {
		l, other := ready(t), ready(t)
		var engines []ledger.EngineReport
		for range number { // the very ids that this ledger will have for that moment
			a, err := ask(other, ahead, "bob", 1)
			must(t, err)
			a.Process.PID = 100
			engines = append(engines, ledger.EngineReport{ID: a.ID, Grant: &a})
		}
		_, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2, Full: true, Engines: engines})
		must(t, err)
		if n := l.Counts().Active; n != number {
			t.Fatalf("%d are taken over; want %d", n, number)
		}
		ids := make(map[ledger.ID]bool)
		for range 3 {
			a, err := ask(l, ahead, "alice", 1)
			must(t, err)
			ids[a.ID] = true
		}
		count := 0
		l.Allocations(0, func(a *ledger.Allocation) bool {
			count++
			if ids[a.ID] != (a.Labels.Value("user") == "alice") {
				t.Errorf("%s is %s's", a.ID, a.Labels.Value("user"))
			}
			return true
		})
		if count != number+3 || len(ids) != 3 {
			t.Errorf("%d allocations and %v new ids; want %d and 3", count, slices.Collect(maps.Keys(ids)), number+3)
		}
	}
}

// Nor are those that have ended since, whatever the clock of the coordinator was that they come
// from.
func TestAnIDThatAnAgentHasBroughtBackIsNotGivenOutOnceItHasEnded(t *testing.T) {
	for _, at := range []ledger.Instant{start, start.Add(10 * time.Second)} {
		l, other := ready(t), ready(t)
		var engines []ledger.EngineReport
		brought := make(map[ledger.ID]bool)
		for range 3 {
			a, err := ask(other, at, "bob", 1)
			must(t, err)
			a.Process.PID = 100
			engines, brought[a.ID] = append(engines, ledger.EngineReport{ID: a.ID, Grant: &a}), true
		}
		for i, engines := range [][]ledger.EngineReport{engines, engines[2:], nil} {
			_, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2 + uint64(i), Seen: l.Revision(), Full: true, Engines: engines})
			must(t, err)
			if n := l.Counts().Active; n != len(engines) {
				t.Fatalf("%d are active; want %d", n, len(engines))
			}
		}
		for range 4 {
			if a, err := ask(l, at, "alice", 1); err != nil || brought[a.ID] {
				t.Errorf("alice gets %s, %v; that was bob's", a.ID, err)
			}
		}
	}
}

// In a large fleet hosts are not counted one by one for every refusal, unless there is nothing
// else to report.
func TestARefusalInALargeFleetCountsHostsWhereNoneMatches(t *testing.T) {
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	for i := range 1001 {
		_, err := l.Register(start, ledger.RegisterCommand{HostID: fmt.Sprint("h", i), Incarnation: 1, Capacity: resource.Vector{}.WithMemory(8)})
		must(t, err)
	}
	for name, test := range map[string]struct {
		wishes *ledger.Wishes
		counts bool
	}{
		"too large for every host":                    {nil, false},
		"a label that no host has":                    {&ledger.Wishes{Required: label.Of("disk", "ssd")}, true},
		"a label, and too large for those without it": {&ledger.Wishes{Required: label.Of("disk", "ssd")}, true},
	} {
		_, err := ask(l, start, "alice", 9, func(c *ledger.AllocateCommand) { c.Wishes = test.wishes })
		refusal, refused := errors.AsType[*ledger.InsufficientError](err)
		if !refused || refusal.Never || refusal.Reason != ledger.ReasonRefused || (refusal.Filters != nil) != test.counts || len(refusal.Shortfalls) == 0 != test.counts {
			t.Errorf("%s: %+v; want filters: %t", name, refusal, test.counts)
		}
	}
}

// Only an adopted engine is compared with the request.
func TestARepeatOfAKnownRequestIsNotComparedInItsParts(t *testing.T) {
	for name, hash := range map[string]uint64{"with a hash": 7, "with the hash that stands for none": 0} {
		l := ready(t)
		request := func(c *ledger.AllocateCommand) { c.RequestID, c.RequestHash = "r1", hash }
		first, err := ask(l, start, "alice", 1, request)
		must(t, err)
		// with that hash it is the same, whatever it looks like
		again, err := ask(l, start, "alice", 2, request)
		if err != nil || again.ID != first.ID {
			t.Errorf("%s: the repeat is %s, %v; want %s", name, again.ID, err, first.ID)
		}
	}
}

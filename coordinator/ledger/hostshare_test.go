package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// free asks for no memory and no cpu, with a row as large as can be.
func (w *liveWorld) free(caller, host string, wait time.Duration) (ledger.Allocation, error) {
	c := ledger.AllocateCommand{
		Actor: identity.Actor{Name: caller, Anyone: true}, Async: true, Wait: wait,
		Resource: resource.NewResource(resource.Vector{}.WithMemory(0)),
		Labels:   label.Set{{Key: "note", Value: strings.Repeat("x", 4000)}, {Key: "user", Value: "u"}},
	}
	if host != "" {
		c.Wishes = &ledger.Wishes{Host: host}
	}
	result, err := w.ledger.Allocate(w.now, c)
	return result.Allocation, err
}

// crowd makes a caller fill its share of a host, and returns what it has there.
func (w *liveWorld) crowd(caller, host string) (has []ledger.Allocation) {
	w.Helper()
	for range 100 {
		a, err := w.free(caller, host, 0)
		if err != nil {
			w.refusedThere(err, caller, host)
			return has
		}
		has = append(has, a)
	}
	w.Fatal("there is no bound")
	return nil
}

func (w *liveWorld) refusedThere(err error, caller, host string) {
	w.Helper()
	short, ok := errors.AsType[*ledger.InsufficientError](err)
	if !ok || len(short.Shortfalls) != 1 || short.Shortfalls[0].Note != ledger.NoteRefused || short.Shortfalls[0].Account.String() != "host "+host ||
		!strings.Contains(short.Shortfalls[0].Detail, fmt.Sprintf("allocations of caller %q", caller)) {
		w.Fatalf("got %v: want one that says that %s has its share of %s", err, caller, host)
	}
}

func TestOneCallerFillsHalfOfAHostAtMost(t *testing.T) {
	const most = 64 << 10
	w := newLiveWorld(t, ledger.Config{HostLiveBytes: most}, "h1", "h2")
	has := w.crowd("mallory", "h1")
	bytes := int64(0)
	for _, a := range has {
		bytes += a.LiveBytes()
	}
	if last := has[0].LiveBytes(); bytes < most/2 || bytes >= most/2+last {
		t.Errorf("it has %d bytes there: want half of %d", bytes, most)
	}
	w.audit()
	if info, _ := w.ledger.Host("h1"); info.Unavailable != "" {
		t.Errorf("the host is closed to all: %s", info.Unavailable)
	}
	// Others go on there, and it goes on elsewhere.
	alice, err := w.allocate("alice", "", "h1", 10, 0)
	must(t, err)
	for range 3 {
		if a, err := w.free("mallory", "", 0); err != nil || a.HostID != "h2" {
			t.Fatalf("for any host it got %q, %v: want h2", a.HostID, err)
		}
	}
	// What it has does not grow beyond that either.
	big := resource.Vector{}
	for i := range 16 {
		big = big.With(fmt.Sprintf("n%059d", i), 0)
	}
	_, err = w.ledger.Resize(w.now, ledger.ResizeCommand{Actor: identity.Local(), ID: has[0].ID, Entitled: resource.NewResource(big)})
	if err == nil {
		t.Error("a row grows by a kilobyte where its caller has its share")
	} else {
		w.refusedThere(err, "mallory", "h1")
	}
	_, err = w.ledger.Resize(w.now, ledger.ResizeCommand{Actor: identity.Local(), ID: alice.ID, Entitled: resource.NewResource(big)})
	must(t, err)
	// If the caller has its share of all hosts, a request waits for the first host on which it has
	// less.
	w.release(w.mustFree("mallory", "h2").ID)
	w.crowd("mallory", "h2")
	_, err = w.free("mallory", "", 0)
	short, ok := errors.AsType[*ledger.InsufficientError](err)
	if !ok || short.Filters == nil || short.Filters.Fit != 0 || short.Filters.Measurement != 2 || len(short.Shortfalls) != 1 || short.Shortfalls[0].Note != ledger.NoteRefused {
		t.Fatalf("for any host: %v", err)
	}
	waiting, err := w.free("mallory", "", time.Hour)
	must(t, err)
	named, err := w.free("mallory", "h1", time.Hour)
	must(t, err)
	if waiting.State != ledger.Waiting || named.State != ledger.Waiting {
		t.Fatalf("they are %s and %s: want them to wait", waiting.State, named.State)
	}
	x, err := w.ledger.ExplainID(w.now, named.ID, identity.Actor{})
	must(t, err)
	if len(x.Shortfalls) != 1 || !strings.Contains(x.Shortfalls[0].Detail, `caller "mallory"`) {
		t.Errorf("explained by %v", x.Shortfalls)
	}
	// One like it of another caller does not wait behind it.
	if a, err := w.free("bob", "h1", time.Hour); err != nil || a.State != ledger.Reserved {
		t.Errorf("the same request of another caller is %s, %v", a.State, err)
	}
	w.audit()
	w.release(has[1].ID)
	w.release(has[2].ID)
	for _, a := range []ledger.Allocation{waiting, named} {
		if now, _ := w.ledger.Get(a.ID); now.State != ledger.Reserved || now.HostID != "h1" {
			t.Errorf("once two have ended it is %s on %q", now.State, now.HostID)
		}
	}
	w.audit()
}

func (w *liveWorld) mustFree(caller, host string) ledger.Allocation {
	w.Helper()
	a, err := w.free(caller, host, 0)
	must(w.T, err)
	return a
}

// What a host frees is not held for a request that would not get it.
func TestAHostIsNotHeldForACallerThatHasItsShareOfIt(t *testing.T) {
	w := newLiveWorld(t, ledger.Config{HostLiveBytes: 64 << 10, StarvationAfter: time.Second}, "h1")
	w.crowd("mallory", "h1")
	_, err := w.free("mallory", "h1", time.Hour)
	must(t, err)
	for range 5 {
		w.now = w.now.Add(time.Second)
		w.sync("h1", uint64(w.now))
		if _, err := w.allocate("alice", "", "h1", 10, 0); err != nil {
			t.Fatalf("another caller's: %v", err)
		}
	}
	if info, _ := w.ledger.Host("h1"); info.Account.HeldFor != 0 {
		t.Errorf("the host is held for %s", info.Account.HeldFor)
	}
	w.audit()
}

// A row has room for its confirmation whatever it says of resources, also on a host that others
// have filled since.
func TestAUsualConfirmationIsTakenOnAFullHost(t *testing.T) {
	w := newLiveWorld(t, ledger.Config{HostLiveBytes: 64 << 10}, "h1")
	custom := make(map[string]int64)
	for i := range 16 {
		custom[fmt.Sprintf("accelerator_model%02d_of_a_vendor", i)] = 1
	}
	capacity := resource.Vector{}.WithMemory(1 << 50).WithCustom(custom)
	_, err := w.ledger.Sync(w.now, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2, Seen: w.ledger.Revision(), Capacity: &capacity})
	must(t, err)
	asked := resource.Vector{}.WithMemory(1).WithCustom(custom)
	res, err := w.ledger.Allocate(w.now, ledger.AllocateCommand{
		Actor: identity.Local(), Labels: label.Of("user", "alice"), Resource: resource.NewResource(asked), Wishes: &ledger.Wishes{Host: "h1"},
	})
	must(t, err)
	for _, caller := range []string{"mallory", "trudy"} {
		for err = nil; err == nil; {
			_, err = w.allocate(caller, "", "h1", 100, 0)
		}
	}
	_, err = w.ledger.Confirm(w.now, ledger.ConfirmCommand{
		Actor: identity.Local(), ID: res.Allocation.ID, Address: "h1.example.com:4040", ApplicationIDs: []string{"application_1700000000000_0001"},
		Process: ledger.Process{PID: 4711, StartTime: 1234567, BootID: strings.Repeat("b", 36), Cgroup: "/bursar.slice/engine-1.scope"},
	})
	must(t, err)
	w.audit()
}

// The queues that rows count in are part of what their caller has on a host, whichever host it
// asks for.
func TestACallerWhoNamesNoHostIsHeldToItsShareOfQueuesToo(t *testing.T) {
	w := newLiveWorld(t, ledger.Config{HostLiveBytes: 64 << 10}, "h1")
	must(t, w.ledger.PutProvider(start, ledger.ProviderRecord{ClusterName: yarnProd}))
	var parts []resource.External
	for i := range 8 {
		path := "root" + strings.Repeat(fmt.Sprintf(".%c", 'a'+i), 31)
		parts = append(parts, resource.External{Address: resource.Address{Kind: "yarn", Cluster: "prod", Path: path}, Vector: resource.Vector{}.WithMemory(0)})
	}
	ask := func() error {
		_, err := w.ledger.Allocate(start, ledger.AllocateCommand{
			Actor: identity.Actor{Name: "mallory", Anyone: true}, Resource: resource.NewResource(resource.Vector{}.WithMemory(1), parts...),
		})
		return err
	}
	must(t, ask())
	if err := ask(); err == nil {
		h, _ := w.ledger.Host("h1")
		t.Errorf("somebody has more than half of the host: %d allocations", h.Account.Allocations)
	}
}

// The rows of a user and of all subordinate ids of that user count together.
func TestSubordinateIDsShareTheirOwnersHalfOfAHost(t *testing.T) {
	w := newLiveWorld(t, ledger.Config{HostLiveBytes: 64 << 10}, "h1")
	free := func(acting, labelled string) (ledger.Allocation, error) {
		c := ledger.AllocateCommand{
			Actor: identity.Actor{Name: acting + "@h1", Users: []string{acting}}, Async: true, Wishes: &ledger.Wishes{Host: "h1"},
			Resource: resource.NewResource(resource.Vector{}.WithMemory(0)),
			Labels:   label.Set{{Key: "note", Value: strings.Repeat("x", 4000)}, {Key: "user", Value: labelled}},
		}
		c.Subordinate = acting != labelled
		result, err := w.ledger.Allocate(w.now, c)
		return result.Allocation, err
	}
	var err error
	granted := 0
	var last ledger.Allocation
	for id := 100000; err == nil && granted < 100; id++ {
		var a ledger.Allocation
		if a, err = free(fmt.Sprint(id), "mallory"); err == nil {
			granted++
			last = a
		}
	}
	w.refusedThere(err, "mallory@h1", "h1")
	_, err = free("mallory", "mallory")
	w.refusedThere(err, "mallory@h1", "h1")
	if _, err := free("alice", "alice"); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	w.audit()
	// Each id releases its own.
	for _, actor := range []string{"mallory", "100000"} {
		_, err := w.ledger.Release(w.now, ledger.ReleaseCommand{Actor: identity.Actor{Name: actor + "@h1", Users: []string{actor}}, ID: last.ID})
		if _, denied := errors.AsType[*ledger.DeniedError](err); !denied {
			t.Errorf("%s releases an allocation of %s: %v", actor, last.ActingUser(), err)
		}
	}
	if _, err := w.ledger.Release(w.now, ledger.ReleaseCommand{Actor: identity.Actor{Name: last.Caller, Users: []string{last.ActingUser()}}, ID: last.ID}); err != nil {
		t.Error(err)
	}
	w.audit()
}

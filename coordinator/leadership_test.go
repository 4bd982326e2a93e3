package coordinator

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/discovery"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestWhoStopsHandsOver(t *testing.T) {
	m := startTeam(t, 3)
	leader, _ := m.led()
	leader.host("h", gib)
	a := leader.allocate(request("kept", 1))
	epoch := leader.status().GetEpoch()
	leader.stop()
	next, standbys := m.led()
	if next == leader {
		t.Fatal("who was stopped leads")
	}
	if got := next.status(); got.GetEpoch() <= epoch || got.GetReserved() != 1 {
		t.Errorf("after %d: %v", epoch, got)
	}
	for _, f := range standbys {
		if f == leader {
			continue
		}
		if got := f.get(a.GetId()); got.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED {
			t.Errorf("through %s: %s", f.url, got.GetState())
		}
	}
}

func TestALostLockEndsTheLeadership(t *testing.T) {
	m := startTeam(t, 2)
	leader, standbys := m.led()
	leader.host("h", gib)
	leader.allocate(request("all", gib))
	waiting := request("waits", gib)
	waiting.Wait = seconds(60)
	answered := make(chan error, 1)
	go func() {
		_, err := leader.allocations.Allocate(context.WithoutCancel(t.Context()), waiting)
		answered <- err
	}()
	eventually(t, "it waits", func() bool { return leader.status().GetWaiting() == 1 })
	m.bar(leader.url, true)
	m.takeAway()
	if err := <-answered; connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("who waited was told %v, want UNAVAILABLE, to ask again", err)
	}
	next, _ := m.led()
	if next != standbys[0] {
		t.Fatal("nobody else leads")
	}
	// The one that lost it still answers, by passing on.
	if got := leader.status(); got.GetUrl() != next.url || got.GetWaiting() != 1 {
		t.Errorf("status through the old leader: %v", got)
	}
}

func TestTheStoreHasTheLastWord(t *testing.T) {
	m := startTeam(t, 2)
	leader, standbys := m.led()
	leader.host("h", gib)
	m.bar(leader.url, true) // when it resigns it shall not be elected again at once
	// Another one believes to lead, and does: this one learns of it by its next commit, and may
	// have made one by then for the time's sake.
	other := standbys[0].server
	<-other.loop.Lead(0).Began
	res, err := leader.allocations.Allocate(t.Context(), request("r", 1))
	switch code := connect.CodeOf(err); {
	case err == nil:
		t.Errorf("a deposed leader grants %v", res)
	case code != connect.CodeUnavailable && code != connect.CodeResourceExhausted:
		// if it knew, it passed the call on: no host has reported there
		t.Errorf("a deposed leader answers %v, want UNAVAILABLE", err)
	}
	eventually(t, "it knows", func() bool { return !leader.server.loop.Leading() })
}

func TestADeposedLeaderDoesNotAnswerReadsFromThePast(t *testing.T) {
	m := startTeam(t, 2)
	leader, standbys := m.led()
	leader.host("h", gib)
	a := leader.allocate(request("r", 1))
	<-standbys[0].server.loop.Lead(0).Began
	m.bar(leader.url, true)
	// The old one may have noticed by now. Then the other is elected and takes the lead once more,
	// which is a pause.
	eventually(t, "it is released", func() bool {
		_, err := standbys[0].allocations.Release(t.Context(), &bursarv1.ReleaseRequest{Id: a.GetId()})
		return err == nil
	})
	res, err := leader.allocations.Get(t.Context(), &bursarv1.AllocationServiceGetRequest{Id: a.GetId()})
	if err == nil && res.GetAllocation().GetState() == bursarv1.AllocationState_ALLOCATION_STATE_RESERVED {
		t.Error("it is still reserved, says who leads no more")
	}
}

// sickStore cannot be led while it is sick.
type sickStore struct {
	store.Store

	sick *atomic.Bool
}

func (s sickStore) Lead(ctx context.Context, atLeast uint64) (store.Meta, error) {
	if s.sick.Load() {
		return store.Meta{}, errors.New("no route to the store")
	}
	return s.Store.Lead(ctx, atLeast)
}

func (s sickStore) Commit(ctx context.Context, b store.Batch) error {
	if s.sick.Load() {
		return store.ErrUnknownOutcome
	}
	return s.Store.Commit(ctx, b)
}

func TestWhoLosesTheStoreGivesTheLeadAway(t *testing.T) {
	var sick [2]atomic.Bool
	m := startTeam(t, 2, func(member int, s store.Store) store.Store { return sickStore{s, &sick[member]} })
	leader, standbys := m.led()
	leader.host("h", gib)
	for i, f := range m.members {
		sick[i].Store(f == leader)
	}
	_, err := leader.allocations.Allocate(t.Context(), request("r", 1))
	if connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("a leader without a store answers %v, want UNAVAILABLE", err)
	}
	eventually(t, "it gives the lead away", func() bool { next, _ := m.led(); return next == standbys[0] })
	standbys[0].host("other", gib)
	if got := standbys[0].allocate(request("r", 1)); got.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED {
		t.Errorf("the next one: %v", got)
	}
}

func TestStaleReadsNeedNoLeader(t *testing.T) {
	m := startTeam(t, 2)
	leader, standbys := m.led()
	leader.host("h", gib)
	a := leader.allocate(request("r", 1))
	for _, f := range m.members {
		m.bar(f.url, true)
	}
	m.takeAway()
	f := standbys[0]
	eventually(t, "nobody leads", func() bool {
		_, err := f.allocations.Get(t.Context(), &bursarv1.AllocationServiceGetRequest{Id: a.GetId()})
		return connect.CodeOf(err) == connect.CodeUnavailable
	})
	got, err := f.allocations.Get(t.Context(), &bursarv1.AllocationServiceGetRequest{Id: a.GetId(), AllowStale: true})
	if err != nil || got.GetAllocation().GetId() != a.GetId() {
		t.Errorf("Get: %v, %v", got, err)
	}
	list, err := f.allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{AllowStale: true})
	if err != nil || len(list.GetAllocations()) != 1 {
		t.Errorf("List: %v, %v", list, err)
	}
	hosts, err := f.hosts.List(t.Context(), &bursarv1.HostServiceListRequest{AllowStale: true})
	if err != nil || len(hosts.GetHosts()) != 1 {
		t.Errorf("hosts: %v, %v", hosts, err)
	}
	if _, err := f.quotas.List(t.Context(), &bursarv1.QuotaServiceListRequest{AllowStale: true}); err != nil {
		t.Errorf("quotas: %v", err)
	}
	status, err := f.cluster.Status(t.Context(), &bursarv1.StatusRequest{AllowStale: true})
	if err != nil || status.GetIsLeader() || status.GetLeaderUrl() != "" || len(status.GetWarnings()) == 0 {
		t.Errorf("status: %v, %v", status, err)
	}
	// It may hear of it after the one that led, which has answered so far.
	eventually(t, "readyz says that nobody leads", func() bool { return f.probed() == http.StatusServiceUnavailable })
}

func TestTheHandOverIsQuick(t *testing.T) {
	m := startTeam(t, 2)
	leader, standbys := m.led()
	leader.host("h", gib)
	began := time.Now()
	leader.stop()
	if next, _ := m.led(); next != standbys[0] {
		t.Fatal("nobody took over")
	}
	standbys[0].host("other", gib)
	standbys[0].allocate(request("r", 1))
	t.Logf("from the order to stop to the next grant: %s", time.Since(began))
}

// blackStore answers nothing while it is cut off.
type blackStore struct {
	store.Store

	cut *atomic.Bool
}

func (s blackStore) Lead(ctx context.Context, atLeast uint64) (store.Meta, error) {
	if s.cut.Load() {
		<-ctx.Done()
		return store.Meta{}, ctx.Err()
	}
	return s.Store.Lead(ctx, atLeast)
}

func (s blackStore) Commit(ctx context.Context, b store.Batch) error {
	if s.cut.Load() {
		<-ctx.Done()
		return errors.Join(store.ErrUnknownOutcome, ctx.Err())
	}
	return s.Store.Commit(ctx, b)
}

func TestWhoHearsNothingFromTheStoreGivesTheLeadAway(t *testing.T) {
	t.Parallel() // it waits
	var cut [2]atomic.Bool
	m := startTeam(t, 2, func(member int, s store.Store) store.Store { return blackStore{s, &cut[member]} })
	leader, standbys := m.led()
	for i, f := range m.members {
		cut[i].Store(f == leader)
	}
	if _, err := leader.cluster.Status(t.Context(), &bursarv1.StatusRequest{}); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("a leader that hears nothing from the store answers %v, want UNAVAILABLE", err)
	}
	eventually(t, "it has given the lead away", func() bool {
		next, _ := m.led()
		return next == standbys[0]
	})
}

func TestAStoreThatWasPutBackDoesNotGiveOutAnEpochTwice(t *testing.T) {
	m := startTeam(t, 2)
	next := func(than uint64) (epoch uint64) {
		m.takeAway()
		eventually(t, "the next one leads", func() bool {
			status, err := m.members[0].cluster.Status(t.Context(), &bursarv1.StatusRequest{})
			epoch = status.GetEpoch()
			return err == nil && status.GetIsLeader() && epoch != than
		})
		return epoch
	}
	before := m.memory.Copy("shared")
	last := next(next(next(1)))
	eventually(t, "everybody has heard of the last epoch", func() bool {
		return slices.Contains(m.members[0].server.peers.Epochs(), last) && slices.Contains(m.members[1].server.peers.Epochs(), last)
	})
	m.memory.Restore(before)
	if got := next(last); got <= last {
		t.Errorf("epoch %d after %d, of a store that was put back", got, last)
	}
}

// Anybody who may write into Consul may announce any epoch there.
func TestAnAnnouncedEpochIsBelievedForOneStride(t *testing.T) {
	m := startTeam(t, 1)
	last := uint64(0)
	epoch := func() uint64 {
		m.takeAway()
		var status *bursarv1.StatusResponse
		eventually(t, "it leads again", func() (leads bool) {
			var err error
			status, err = m.members[0].cluster.Status(t.Context(), &bursarv1.StatusRequest{})
			// otherwise it has not noticed yet
			return err == nil && status.GetIsLeader() && status.GetEpoch() > last
		})
		last = status.GetEpoch()
		return last
	}
	heard := func(epoch uint64) {
		m.announce(election.Leader{URL: "http://127.0.0.1:1", Epoch: epoch})
		eventually(t, "it has heard of the epoch", func() bool { return slices.Contains(m.members[0].server.peers.Epochs(), epoch) })
	}
	before := epoch()
	for _, poison := range []uint64{1<<48 - 1, 1 << 48, 1<<63 - 1, 1<<64 - 1} {
		heard(poison)
	}
	after := epoch()
	if after <= before || after > before+10 {
		t.Errorf("epoch %d after %d: want the next, whatever was announced", after, before)
	}
	m.takeAway()
	heard(after + discovery.EpochStride/2)
	if got := epoch(); got <= after+discovery.EpochStride/2 {
		t.Errorf("epoch %d, and one at %d was announced: a store that was put back must be lifted above what it has missed", got, after+discovery.EpochStride/2)
	}
}

func TestItIsTooEarlyToSayNoWhileHostsComeBack(t *testing.T) {
	m := startTeam(t, 2)
	leader, _ := m.led()
	leader.host("h", gib)
	m.bar(leader.url, true)
	m.takeAway()
	next, _ := m.led()
	for name, req := range map[string]*bursarv1.AllocateRequest{"any host": request("any", 1), "this host": request("this", 1)} {
		if name == "this host" {
			req.Host = &bursarv1.HostWishes{Id: "h"}
		}
		if _, err := next.allocations.Allocate(t.Context(), req); connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("%s: %v, want UNAVAILABLE, so that its client tries again", name, err)
		}
	}
	next.host("h", gib)
	next.allocate(request("any", 1))
	if _, err := next.allocations.Allocate(t.Context(), request("more", gib)); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("once all are back: %v, want RESOURCE_EXHAUSTED", err)
	}
}

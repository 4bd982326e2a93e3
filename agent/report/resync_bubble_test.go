package report

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/internal/discovery"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// changesLeader is a coordinator whose third Sync is answered by a new leader, which says when the
// host is to come back.
func changesLeader(after *durationpb.Duration) *heartbeatServer {
	return &heartbeatServer{interval: 5 * time.Second, answer: func(n int) *bursarv1.SyncResponse {
		if n != 3 {
			return nil
		}
		return &bursarv1.SyncResponse{Epoch: 2, Action: bursarv1.SyncAction_SYNC_ACTION_RESYNC, ResyncAfter: after}
	}}
}

// toBack lets an agent run until the host is registered again, and returns how long that was after
// the answer of the new leader. told is called at that answer.
func toBack(t *testing.T, p *heartbeatServer, told func(r *Reporter)) (took time.Duration) {
	t.Helper()
	beat(t, p, func(r *Reporter) {
		for p.calls() < 3 {
			time.Sleep(time.Millisecond)
		}
		told(r)
		time.Sleep(time.Minute)
		synctest.Wait()
	})
	if len(p.registers) != 2 {
		t.Fatalf("registered %d times; want once at each leader", len(p.registers))
	}
	took = p.registers[1].Sub(p.syncs[2])
	if full := p.syncs[3].Sub(p.registers[1]); full != 0 {
		t.Errorf("the full report came %s after the registration; want it at once", full)
	}
	return took
}

func TestAHostComesBackWhenANewLeaderSaysSo(t *testing.T) {
	for name, test := range map[string]struct {
		told *durationpb.Duration
		want time.Duration
	}{
		"in its turn":                      {durationpb.New(17 * time.Second), 17 * time.Second},
		"at once, to an older coordinator": {nil, Gap},
	} {
		t.Run(name, func(t *testing.T) {
			if got := toBack(t, changesLeader(test.told), func(*Reporter) {}); got != test.want {
				t.Errorf("the host was registered after %s; want %s", got, test.want)
			}
		})
	}
}

// A caller that waits for the host is worth more than a turn.
func TestAHostComesBackAtOnceForACaller(t *testing.T) {
	got := toBack(t, changesLeader(durationpb.New(17*time.Second)), func(r *Reporter) {
		time.Sleep(time.Second)
		r.syncDue.NoLaterThan(time.Now())
	})
	if got > time.Second+2*Gap {
		t.Errorf("the host was registered after %s; want it at once when a caller asked, after 1 s", got)
	}
}

// A host whose callers wait for a grant comes at once, when a leader is named and when that puts it
// off: they are granted nothing before.
func TestAHostWithCallersComesToANewLeaderAtOnce(t *testing.T) {
	t.Run("that puts it off", func(t *testing.T) {
		p := changesLeader(durationpb.New(17 * time.Second))
		beat(t, p, func(r *Reporter) {
			r.asking.Add(1)
			time.Sleep(time.Minute)
			synctest.Wait()
		})
		if len(p.registers) != 2 {
			t.Fatalf("registered %d times; want once at each leader", len(p.registers))
		}
		if got := p.registers[1].Sub(p.syncs[2]); got > Gap {
			t.Errorf("the host was registered after %s; want it at once", got)
		}
	})
	t.Run("that is named", func(t *testing.T) {
		herald := &heralds{}
		p := &heartbeatServer{interval: time.Minute, herald: herald}
		beat(t, p, func(r *Reporter) {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			r.asking.Add(1)
			go func() {
				time.Sleep(10 * time.Second)
				herald.name("b")
			}()
			began := time.Now()
			_ = r.WatchLeader(ctx)
			synctest.Wait()
			last := p.syncs[len(p.syncs)-1].Sub(began) - 10*time.Second
			if last < 0 || last > CallersSpread {
				t.Errorf("it reported %s after the leader was named; want it within %s", last, CallersSpread)
			}
		})
	})
}

// That leader is often named only after it has answered. That is no reason to come before.
func TestALeaderThatIsNamedLateIsNotReportedToEarlier(t *testing.T) {
	p := changesLeader(durationpb.New(17 * time.Second))
	herald := &heralds{}
	p.herald = herald
	got := toBack(t, p, func(r *Reporter) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		go func() {
			time.Sleep(time.Second)
			herald.name("a")
		}()
		_ = r.WatchLeader(ctx)
	})
	if got != 17*time.Second {
		t.Errorf("the host was registered after %s; want 17s", got)
	}
}

// A leader that was named, and that has put the host off, may be lost as well. The next one is
// reported to when it is named, and not only when the host would have reported to the one before.
func TestALeaderAfterTheNextIsReportedToWhenItIsNamed(t *testing.T) {
	p := changesLeader(durationpb.New(17 * time.Second))
	herald := &heralds{}
	p.herald = herald
	var named time.Time
	var before int // Syncs until then
	beat(t, p, func(r *Reporter) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		go func() {
			for p.calls() < 2 {
				time.Sleep(time.Millisecond)
			}
			herald.name("b") // its answer is the third; a try that was under way comes before or after
			for p.calls() < 3 {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(3 * time.Second)
			named, before = time.Now(), p.calls()
			herald.name("c")
		}()
		_ = r.WatchLeader(ctx)
	})
	if after := p.syncs[before].Sub(named); after > newLeaderSpread+Gap {
		t.Errorf("a Sync was sent %s after the third leader was named; want it within %s", after, newLeaderSpread+Gap)
	}
}

// heralds is a finder that names a leader.
type heralds struct {
	mu      sync.Mutex
	leader  string        // guarded by mu
	changed chan struct{} // guarded by mu
}

func (h *heralds) Coordinators() ([]discovery.Coordinator, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return []discovery.Coordinator{{URL: h.leader, Leads: h.leader != ""}}, h.changed
}

func (h *heralds) name(leader string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leader = leader
	close(h.changed)
	h.changed = make(chan struct{})
}

package chaos

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// TestWithoutACoordinatorEnginesGoOn stops the coordinator by SIGKILL, and by SIGSTOP, which
// leaves its connections open. Engines go on. New requests fail by their own deadline and not
// later. A request that is still within its deadline is granted when the coordinator is back. What
// ended in between is released then, and nothing that was confirmed is forgotten.
func TestWithoutACoordinatorEnginesGoOn(t *testing.T) {
	for _, test := range []struct {
		name       string
		away, back func(c *cluster)
	}{
		{
			"killed",
			func(c *cluster) { c.coordinator.Kill() },
			func(c *cluster) { c.startCoordinator() },
		},
		{
			"stopped",
			func(c *cluster) { freeze(c.t, c.coordinator) },
			func(c *cluster) { c.coordinator.Signal(syscall.SIGCONT) },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting for deadlines
			c := startCluster(t, settings{})
			stays, first := c.startConfirmed(engineRequest())
			ends, second := c.startConfirmed(engineRequest())
			reservation := c.allocate(engineRequest())
			before := accountOf(c)

			test.away(c)
			c.expectNobodyAnswers(t)
			late := c.askLate()
			ends.kill()
			c.expectLocalAnswers(first)
			if !proc.Alive(stays.pid()) {
				t.Fatal("an engine was killed because the coordinator is away")
			}
			test.back(c)

			granted := late(t)
			eventually(t, upTime, "the engine that ended meanwhile is released", func() error { return c.is(second.GetId(), released) })
			for id, want := range map[string]bursarv1.AllocationState{first.GetId(): active, reservation.GetId(): reserved} {
				if err := c.is(id, want); err != nil {
					t.Error(err)
				}
			}
			c.release(granted)
			before.used = before.used.minus(amountsOf(second.GetEntitled()))
			eventually(t, upTime, "the account holds what it held", func() error { return before.differs(c) })
			if !proc.Alive(stays.pid()) {
				t.Error("an engine was killed when the coordinator was back")
			}
			// A reservation from before still becomes an engine.
			third := startEngine(t)
			c.confirm(reservation.GetId(), third)
			third.kill()
			stays.kill()
			c.expectEmpty(upTime)
		})
	}
}

// brief is a request whose reservation ends soon: a coordinator that was stopped still gets it
// when it continues, and may grant it to a caller who has gone by then.
func brief() *bursarv1.AllocateRequest {
	r := engineRequest()
	r.ReservationTtl = seconds(1)
	return r
}

// expectNobodyAnswers: every caller learns that nobody answers, in the time that it gave.
func (c *cluster) expectNobodyAnswers(t *testing.T) {
	t.Helper()
	delays := proc.Delays(t)
	for name, server := range map[string]*client.Client{"agent": c.local, "coordinator": c.remote} {
		const deadline = time.Second
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		began := time.Now()
		_, err := server.Allocations().Allocate(ctx, brief())
		cancel()
		if took := time.Since(began); !client.Unavailable(err) || took > 2*deadline+delays() {
			t.Errorf("the %s says %v after %s, want that nobody answers within %s", name, err, took, deadline)
		}
	}
	// Commands go on for 15 s in addition to the time that they ask to wait, because somebody was
	// there. They take 3 s to cancel a request whose outcome they do not know.
	const most = 25 * time.Second
	var commands sync.WaitGroup
	for _, args := range [][]string{
		{"run", "--memory", "1MiB", "--label", "user=alice", "--ttl", "1s", "--", "true"},
		{"run", "--memory", "1MiB", "--label", "user=alice", "--ttl", "1s", "--wait", "1s", "--", "true"},
		{"status"},
	} {
		commands.Go(func() {
			r := c.bursar(args...)
			if r.Code != 69 || r.Took > most+delays() {
				t.Errorf("bursar %s: exit code %d after %s, want 69 within %s\n%s", strings.Join(args, " "), r.Code, r.Took, most, r.Stderr)
			}
		})
	}
	commands.Wait()
}

// askLate asks with a deadline that is long enough. The returned function waits for the grant, and
// returns its id.
func (c *cluster) askLate() func(t *testing.T) string {
	r := engineRequest()
	r.Wait = seconds(60)
	type answer struct {
		id  string
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
		defer cancel()
		res, err := c.local.Allocations().Allocate(ctx, r)
		answered <- answer{res.GetAllocation().GetId(), err}
	}()
	return func(t *testing.T) string {
		t.Helper()
		a := <-answered
		if a.err != nil {
			t.Fatalf("a request that could wait for the coordinator: %v", a.err)
		}
		return a.id
	}
}

// expectLocalAnswers: the agent still answers about what it holds.
func (c *cluster) expectLocalAnswers(held *bursarv1.Allocation) {
	c.t.Helper()
	res, err := c.local.Allocations().Get(c.t.Context(), &bursarv1.AllocationServiceGetRequest{Id: held.GetId()})
	if err != nil || res.GetAllocation().GetState() != active {
		c.t.Errorf("the agent's own word on an engine: %v, %v", res.GetAllocation(), err)
	}
}

// TestAWaitOutlastsItsCoordinator: a request that waits when the coordinator is killed keeps its
// place, and is granted by the next.
func TestAWaitOutlastsItsCoordinator(t *testing.T) {
	c := startCluster(t, settings{quotas: "quotas:\n  - selector: {user: alice}\n    limit: {instances: 1}\n"})
	e, first := c.startConfirmed(engineRequest())
	waits, later := c.askLate(), c.askLate()
	eventually(t, 5*time.Second, "two wait", func() error {
		if n := len(live(t, c.remote)); n != 3 {
			return fmt.Errorf("%d allocations", n)
		}
		return nil
	})
	order := []string{}
	for _, a := range live(t, c.remote) {
		if a.GetState() == waiting {
			order = append(order, a.GetId())
		}
	}
	c.coordinator.Kill()
	c.startCoordinator()
	e.kill()
	eventually(t, upTime, "the first is granted", func() error { return c.is(order[0], reserved) })
	if err := c.is(order[1], waiting); err != nil {
		t.Error(err)
	}
	if err := c.is(first.GetId(), released); err != nil {
		t.Error(err)
	}
	c.release(order[0])
	eventually(t, upTime, "the second is granted", func() error { return c.is(order[1], reserved) })
	c.release(order[1])
	got := map[string]bool{waits(t): true, later(t): true}
	if !got[order[0]] || !got[order[1]] {
		t.Errorf("granted %v, want %v", got, order)
	}
	c.expectEmpty(soon)
}

// TestASecondAgentDoesNotStart: neither on the same state nor on the same socket, and it does not
// harm the first one.
func TestASecondAgentDoesNotStart(t *testing.T) {
	c := startCluster(t, settings{})
	e, a := c.startConfirmed(engineRequest())
	config := filepath.Join(c.dir, "agent.yaml")
	c.bursar("agent", "--config", config).Expect(t, 1, filepath.Join(c.dir, "agent"))
	c.bursar("agent", "--config", config, "--state-dir", filepath.Join(c.dir, "other")).Expect(t, 1, c.socket)
	if err := c.is(a.GetId(), active); err != nil || !c.agent.Running() || !proc.Alive(e.pid()) {
		t.Errorf("the first agent runs: %v, its engine runs: %v, %v", c.agent.Running(), proc.Alive(e.pid()), err)
	}
	c.release(c.allocate(engineRequest()).GetId())
	e.kill()
	c.expectEmpty(soon)
}

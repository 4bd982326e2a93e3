package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// soon is within which every death must be in the ledger: two ticks.
const soon = 2 * tick

// shown is the time in which the coordinator shows what an engine uses: it is measured at the next
// tick, and reported an interval later, which varies by a tenth.
const shown = 3 * tick

const engineMemory = 64 << 20

// engineRequest is what an engine of these tests asks for.
func engineRequest() *bursarv1.AllocateRequest { return request("alice", engineMemory, 100) }

// TestKillingTheAgentLeavesEnginesAndTheLedgerAlone: the engines go on, the coordinator keeps
// what it has, and the next agent takes over each engine once, except the one that has ended.
func TestKillingTheAgentLeavesEnginesAndTheLedgerAlone(t *testing.T) {
	c := startCluster(t, settings{})
	one, first := c.startConfirmed(engineRequest())
	two, second := c.startConfirmed(engineRequest())
	lease := c.allocate(engineRequest())
	confirmed := must[*bursarv1.ConfirmResponse](t)(c.local.Allocations().Confirm(t.Context(), &bursarv1.ConfirmRequest{Id: lease.GetId(), Lease: seconds(3600)}))
	reservation := c.allocate(engineRequest())
	before := accountOf(c)
	c.agent.Kill()

	always(t, tick, "while the agent is away", func() error {
		if !proc.Alive(one.pid()) || !proc.Alive(two.pid()) {
			return fmt.Errorf("engine %d alive: %v, engine %d alive: %v", one.pid(), proc.Alive(one.pid()), two.pid(), proc.Alive(two.pid()))
		}
		return before.differs(c)
	})
	c.startAgent()
	always(t, soon, "with the next agent", func() error {
		if !proc.Alive(one.pid()) || !proc.Alive(two.pid()) {
			return fmt.Errorf("engine %d alive: %v, engine %d alive: %v", one.pid(), proc.Alive(one.pid()), two.pid(), proc.Alive(two.pid()))
		}
		if n := len(live(t, c.remote)); n != 4 {
			return fmt.Errorf("%d allocations, want 4", n)
		}
		return before.differs(c)
	})
	for _, was := range []*bursarv1.Allocation{first, second, confirmed.GetAllocation(), reservation} {
		diff := cmp.Diff(was, c.get(was.GetId()), protocmp.Transform(),
			protocmp.IgnoreFields(&bursarv1.Allocation{}, "measured", "measured_peak", "measured_peak_source", "cpu_time", "unreclaimable_bytes"))
		if diff != "" {
			t.Errorf("an allocation is not as it was (-before +after):\n%s", diff)
		}
	}
	if list := live(t, c.local); len(list) != 4 {
		t.Errorf("the agent knows %d allocations, want 4", len(list))
	}

	c.agent.Kill()
	two.kill()
	c.startAgent()
	eventually(t, soon, "the engine that ended while no agent was there is released", func() error { return c.is(second.GetId(), released) })
	if err := c.is(first.GetId(), active); err != nil {
		t.Error(err)
	}
	one.kill()
	eventually(t, soon, "an engine that an earlier agent took is released", func() error { return c.is(first.GetId(), released) })
	c.release(lease.GetId())
	c.release(reservation.GetId())
	c.expectEmpty(soon)
}

// accounts is what an account holds at one moment.
type accounts struct{ used, reserved amounts }

func accountOf(c *cluster) accounts {
	c.t.Helper()
	a := c.host().GetAccount()
	return accounts{used: amountsOf(a.GetUsed()), reserved: amountsOf(a.GetReserved())}
}

// differs returns an error if the account holds something else now.
func (a accounts) differs(c *cluster) error {
	c.t.Helper()
	if now := accountOf(c); !now.used.equal(a.used) || !now.reserved.equal(a.reserved) {
		return fmt.Errorf("used %v and reserved %v, before %v and %v", now.used, now.reserved, a.used, a.reserved)
	}
	return nil
}

// TestKillingAnEngineGivesBackWhatItHeld: within two ticks, with the signal that ended it.
func TestKillingAnEngineGivesBackWhatItHeld(t *testing.T) {
	c := startCluster(t, settings{})
	e, a := c.startConfirmed(engineRequest())
	e.fork() // a child that ends with it, as most do, is no orphan
	other, kept := c.startConfirmed(engineRequest())
	if err := proc.Hold(t, e.pid()).SignalGroup(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	took := eventually(t, soon, "the engine is released", func() error { return c.is(a.GetId(), released) })
	ended := c.get(a.GetId())
	t.Logf("released after %s: %s", took.Round(time.Millisecond), ended.GetReason())
	if exit := ended.GetExitStatus(); exit != nil && exit.GetSignal() != int32(syscall.SIGKILL) {
		t.Errorf("ended by %v, want signal %d", exit, syscall.SIGKILL)
	}
	if err := c.is(kept.GetId(), active); err != nil || !proc.Alive(other.pid()) {
		t.Errorf("the other engine: alive %v, %v", proc.Alive(other.pid()), err)
	}
	if used := amountsOf(c.host().GetAccount().GetUsed()); !used.equal(amountsOf(kept.GetEntitled())) {
		t.Errorf("used %v, want that of the engine that runs, %v", used, amountsOf(kept.GetEntitled()))
	}
	other.kill()
	c.expectEmpty(soon)
}

// TestKillingAnEnginesChildLeavesTheEngine: it keeps its allocation, and its measured use shows
// that the child is gone.
func TestKillingAnEnginesChildLeavesTheEngine(t *testing.T) {
	c := startCluster(t, settings{})
	e, a := c.startConfirmed(engineRequest())
	const touched = 32 << 20
	held := func() int64 { return c.get(a.GetId()).GetUnreclaimableBytes() }
	eventually(t, shown, "the engine is measured alone", func() error { return measuredAtAll(c, a.GetId()) })
	alone := held()
	child := proc.Hold(t, e.forkTouching(touched>>20))
	eventually(t, shown, "the engine is measured with its child", func() error {
		if grown := held() - alone; grown < touched {
			return fmt.Errorf("it grew by %d bytes, and its child touched %d", grown, touched)
		}
		return nil
	})
	if err := child.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, shown, "the engine is measured without its child", func() error {
		if grown := held() - alone; grown > touched/2 {
			return fmt.Errorf("it grew by %d bytes", grown)
		}
		return nil
	})
	always(t, soon, "after the child was killed", func() error { return c.is(a.GetId(), active) })
	if !proc.Alive(e.pid()) {
		t.Error("the engine has ended")
	}
	e.kill()
	c.expectEmpty(soon)
}

// TestAnOrphanKeepsTheAllocationOfItsEngine: the engine's first process was killed and left
// another behind, which uses memory. That is not free until the orphan has ended too.
func TestAnOrphanKeepsTheAllocationOfItsEngine(t *testing.T) {
	c := startCluster(t, settings{})
	e, a := c.startConfirmed(engineRequest())
	orphan := proc.Hold(t, e.fork())
	eventually(t, shown, "the engine was measured", func() error { return measuredAtAll(c, a.GetId()) })
	e.kill()
	always(t, soon, "while the orphan lives", func() error { return c.is(a.GetId(), active) })
	if !proc.Alive(orphan.PID) {
		t.Fatal("the orphan has ended")
	}
	// The next agent knows the orphan too: by the session it shares with the engine that was.
	c.agent.Kill()
	c.startAgent()
	always(t, soon, "while the orphan lives, with the next agent", func() error { return c.is(a.GetId(), active) })
	if err := orphan.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "the orphan's allocation is released", func() error { return c.is(a.GetId(), released) })
	c.expectEmpty(soon)
}

func measuredAtAll(c *cluster, id string) error {
	if c.get(id).GetMeasured().GetMemoryBytes() == 0 {
		return fmt.Errorf("allocation %s is not measured", id)
	}
	return nil
}

// TestKillingBursarRunLeavesItsCommand: the command goes on with its allocation, and the agent
// notices its end.
func TestKillingBursarRunLeavesItsCommand(t *testing.T) {
	c := startCluster(t, settings{})
	run := exec.Command(executable, "run", "--memory", "64MiB", "--cpu", "100m", "--label", "user=alice", "--", "sh", "-c", "echo $$; exec sleep 60")
	run.Env = proc.Environment(c.environment()...)
	// The command has it too: with a pipe, Wait would wait for that.
	run.Stderr = os.Stderr
	out := must[interface{ Read([]byte) (int, error) }](t)(run.StdoutPipe())
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Process.Kill() })
	line := make([]byte, 32)
	n := must[int](t)(out.Read(line))
	command := proc.HoldText(t, string(line[:n]))
	t.Cleanup(func() { _ = command.Signal(syscall.SIGKILL) })
	pid := command.PID
	var a *bursarv1.Allocation
	eventually(t, 10*time.Second, "the command is confirmed", func() error {
		if list := live(t, c.remote); len(list) == 1 && list[0].GetState() == active {
			a = list[0]
			return nil
		}
		return errors.New("not yet")
	})
	if int(a.GetProcess().GetPid()) != pid {
		t.Errorf("the engine is %d, want %d", a.GetProcess().GetPid(), pid)
	}
	if err := run.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait() // it was killed
	always(t, soon, "after bursar run was killed", func() error { return c.is(a.GetId(), active) })
	if !proc.Alive(pid) {
		t.Error("the command was killed with bursar run")
	}
	if err := command.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "the command's allocation is released", func() error { return c.is(a.GetId(), released) })
	c.expectEmpty(soon)
}

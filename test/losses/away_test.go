package losses

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// killing is a policy that is not patient.
const killing = "  cgroups: none\n  policies: [{onOverUse: kill, grace: 1s, stopGrace: 2s}]\n"

// While no coordinator answers, engines go on, ended ones are remembered, nothing is started, and
// nothing is stopped for over-use. When one answers again it learns all that.
func TestCoordinatorIsAway(t *testing.T) {
	t.Parallel()
	p := startPlace(t, settings{engines: killing})
	engines := p.three("")
	ending, greedy := p.launched("ending"), p.launched("greedy")
	p.right(append(engines, ending, greedy))
	never := p.prepare("never")
	never.id = p.allocate(never.labels()).GetId()

	p.coordinator.Kill()
	ending.end(3, "nobody listens")
	greedy.tell(fmt.Sprint("hold ", 2*engineMemory))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := p.launch(ctx, never); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("launched without a coordinator: %v", err)
	}
	const overUse = `bursar_agent_engines_over_use{dimension="memory",policy="kill"}`
	eventually(t, "the agent sees that an engine is greedy", func() error {
		if n := p.metric("unix", p.socket, overUse); n != 1 {
			return fmt.Errorf("%v engines are", n)
		}
		return nil
	})
	// Several times the grace.
	always(t, 5*time.Second, "while no coordinator is there", func() error { return undisturbed(append(engines, greedy)) })
	if all := never.processes(); len(all) > 0 {
		t.Errorf("processes %d were started", all)
	}

	p.startCoordinator()
	p.endedWith(ending, 3, "nobody listens")
	eventually(t, "the greedy engine is stopped", func() error {
		if state := p.read(greedy.id).GetState(); state != released {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
	p.killedForOverUse(greedy)
	if err := p.launch(t.Context(), never); err != nil {
		t.Error(err)
	}
	never.awaitStart()
	p.right(append(engines, never))
}

// killedForOverUse checks that an engine was asked to end, and that the history says why.
func (p *place) killedForOverUse(e *engine) {
	p.t.Helper()
	end := p.read(e.id)
	for _, words := range []string{"stopped: uses ", "is entitled to 64MiB", "policy kill"} {
		if !strings.Contains(end.GetReason(), words) {
			p.t.Errorf("engine %s ended for %q, want %q in it", e.name, end.GetReason(), words)
		}
	}
	if n := e.times("SIGTERM"); n == 0 {
		p.t.Errorf("engine %s was not asked to end: it says %q", e.name, e.said())
	}
	p.bursar("allocations", e.id).Expect(p.t, 0, "uses ", "is entitled to 64MiB")
}

// back waits until a coordinator that was started again knows the host.
func (p *place) back() {
	p.t.Helper()
	p.inTime("the host is back", func() error {
		if reason := p.host().GetUnavailableReason(); reason != "" {
			return fmt.Errorf("%s", reason)
		}
		return nil
	})
}

// A coordinator that is put back to before engines were confirmed takes them over as their agent
// reports them: each once, beyond a limit if need be, and it ends none.
func TestCoordinatorIsPutBack(t *testing.T) {
	t.Parallel()
	p := startPlace(t, settings{})
	old := p.confirmed("old")
	forgotten := p.launched("forgotten")
	pending := p.prepare("pending")
	pending.id = p.allocate(pending.labels()).GetId()
	p.shut(p.coordinator)
	backup := filepath.Join(p.dir, "backup")
	if out, err := exec.Command("cp", "-a", p.data(), backup).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.startCoordinator()
	p.back()
	// The backup does not know three engines, one that was a reservation, and one that has ended.
	forgotten.end(8, "after the backup")
	p.endedWith(forgotten, 8)
	if err := p.launch(t.Context(), pending); err != nil {
		t.Fatal(err)
	}
	pending.awaitStart()
	engines := append(p.three("new-"), old, pending)
	p.right(engines)

	p.shut(p.coordinator)
	if err := os.RemoveAll(p.data()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(backup, p.data()); err != nil {
		t.Fatal(err)
	}
	p.write("quotas.yaml", "quotas:\n  - selector: {user: \"*\"}\n    limit: {instances: 3, memory: 16GiB, cpu: 64}\n")
	p.startCoordinator()
	p.back() // the heartbeat before that is answered with nothing but that the host has to register
	p.right(engines)
	over := 0
	for _, account := range p.accounts() {
		if account.GetOverLimit() {
			over++
		}
	}
	var flagged []string
	for _, a := range p.live() {
		if a.GetOverLimit() {
			flagged = append(flagged, a.GetLabels()["engineType"])
		}
	}
	slices.Sort(flagged)
	// The backup has three: one has ended since, which it heard of later.
	if want := []string{"new-confirmed", "new-launched", "new-run"}; over != 1 || !slices.Equal(flagged, want) {
		t.Errorf("%d accounts and allocations %v are over their limit, want one and %v", over, flagged, want)
	}
	always(t, 3*tick, "with an old backup", func() error { return undisturbed(engines) })
	// What it grants now gets other ids, and the ends of the engines that it has taken over are
	// known.
	if _, err := p.local.Allocations().Allocate(t.Context(), request(old.labels())); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("beyond the limit: %v", err)
	}
	pending.end(5, "taken up")
	p.endedWith(pending, 5, "taken up")
	p.right(without(engines, pending))
	if state := p.read(forgotten.id).GetState(); state != bursarv1.AllocationState_ALLOCATION_STATE_RELEASED {
		t.Errorf("what had ended is %s", state)
	}
}

package losses

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// Under the policy kill an engine that keeps using too much memory is stopped through Stop: by
// SIGTERM first, and by SIGKILL if it ignores that, with the reason in the history. An engine that
// gives back in time goes on, and so do others on its host.
func TestGreedyEnginesAreStopped(t *testing.T) {
	t.Parallel()
	p := startPlace(t, settings{engines: "  cgroups: none\n  policies: [{onOverUse: kill, grace: 4s, stopGrace: 1s}]\n"})
	fair, repentant := p.launched("fair"), p.ran("repentant")
	greedy := p.three("greedy-")
	stubborn := p.launched("stubborn")
	stubborn.tell("ignore 1")
	fair.tell(fmt.Sprint("hold ", engineMemory/2))
	all := append([]*engine{fair, repentant, stubborn}, greedy...)
	p.right(all)
	// First and alone: to take so much may last a second, and its grace is short.
	repentant.tell(fmt.Sprint("hold ", 2*engineMemory))
	p.flagged(repentant, bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL)
	repentant.tell("hold 1")
	for _, e := range append([]*engine{stubborn}, greedy...) {
		e.tell(fmt.Sprint("hold ", 2*engineMemory))
	}
	for _, e := range greedy {
		eventually(t, e.name+" is stopped", func() error {
			if state := p.read(e.id).GetState(); state != released {
				return fmt.Errorf("it is %s", state)
			}
			return nil
		})
		p.killedForOverUse(e)
	}
	eventually(t, "the stubborn one is stopped", func() error {
		if proc.Alive(stubborn.pid) {
			return errNotYet
		}
		return nil
	})
	if end := p.ended(stubborn); end.GetExitStatus().GetSignal() != 9 {
		t.Errorf("it ended with %v", end.GetExitStatus())
	}
	p.killedForOverUse(stubborn)
	p.right([]*engine{fair, repentant})
}

// flagged waits until the ledger says that an engine is in over-use.
func (p *place) flagged(e *engine, policy bursarv1.OverUsePolicy) {
	p.t.Helper()
	var over *bursarv1.OverUse
	eventually(p.t, e.name+" is in over-use", func() error {
		list := p.read(e.id).GetOverUse()
		if len(list) != 1 {
			return fmt.Errorf("%v", list)
		}
		over = list[0]
		return nil
	})
	if over.GetDimension() != "memory" || over.GetPolicy() != policy || over.GetEntitled() != engineMemory*mib || over.GetUsed() <= engineMemory*mib {
		p.t.Errorf("engine %s: %v", e.name, over)
	}
}

// Under the policy warn over-use is shown everywhere. The headroom is all that the machine has
// left, without a promise to that engine, while the ledger keeps what the engine is entitled to.
// Over-use ends when the engine gives back.
func TestOverUseIsWarnedOf(t *testing.T) {
	t.Parallel()
	p := startPlace(t, settings{})
	e := p.launched("greedy")
	p.right([]*engine{e})
	if promised := p.promised(e, 0); promised <= 0 || promised >= engineMemory*mib {
		t.Errorf("%d bytes are promised to an engine that uses little", promised)
	}
	e.tell(fmt.Sprint("hold ", 8*engineMemory))
	p.flagged(e, bursarv1.OverUsePolicy_OVER_USE_POLICY_WARN)
	const series = `engines_over_use{dimension="memory",policy="warn"}`
	p.inTime("both servers count it", func() error {
		agent, coordinator := p.metric("unix", p.socket, "bursar_agent_"+series), p.metric("tcp", p.address, "bursar_"+series)
		if agent != 1 || coordinator != 1 {
			return fmt.Errorf("agent %v, coordinator %v", agent, coordinator)
		}
		return nil
	})
	p.bursar("allocations").Expect(t, 0, "of 64MiB (warn)")
	p.bursar("allocations", e.id).Expect(t, 0, "was entitled to 64MiB", "policy warn")
	p.bursar("hosts", hostID).Expect(t, 0, e.id+": memory ", "of 64MiB (warn)")
	if !strings.Contains(p.agent.Output.String(), "an engine uses more than it is entitled to") {
		t.Error("the agent's log does not say so")
	}
	p.right([]*engine{e}) // the entitlement in every account
	// The machine has less left by what it uses beyond that, and the headroom adds nothing to it.
	if promised := p.promised(e, 8*engineMemory); promised != 0 {
		t.Errorf("%d bytes are promised to an engine that uses more than it is entitled to", promised)
	}

	e.tell("hold 1")
	p.inTime("it is over", func() error {
		agent, coordinator := p.metric("unix", p.socket, "bursar_agent_"+series), p.metric("tcp", p.address, "bursar_"+series)
		over := p.read(e.id).GetOverUse()
		ofMemory := slices.ContainsFunc(over, func(o *bursarv1.OverUse) bool { return o.GetDimension() == "memory" })
		if ofMemory || agent != 0 || coordinator != 0 {
			return fmt.Errorf("%v; agent %v, coordinator %v", over, agent, coordinator)
		}
		return nil
	})
	// To take and to give back so much memory may have taken more CPU than it is entitled to.
	eventually(t, "nothing is over", func() error {
		if over := p.read(e.id).GetOverUse(); len(over) > 0 {
			return fmt.Errorf("%v", over)
		}
		return nil
	})
	if r := p.bursar("allocations"); strings.Contains(r.Stdout, "(warn)") {
		t.Errorf("it is still shown: %s", r.Stdout)
	}
	p.right([]*engine{e})
}

// promised waits until an engine was measured to hold that many MiB, or more. It returns the
// memory that the machine has left without the headroom, in bytes: what the host keeps for its
// engines. Both are of one sample: other programs take and give back any amount between two.
func (p *place) promised(e *engine, mebibytes int64) (bytes int64) {
	p.t.Helper()
	eventually(p.t, "engine "+e.name+" is measured", func() error {
		a := p.read(e.id)
		if a.GetMeasured() == nil || a.GetUnreclaimableBytes() < mebibytes*mib {
			return fmt.Errorf("%v", a)
		}
		host := p.host()
		if host.HeadroomBytes == nil {
			return errors.New("no headroom is known")
		}
		bytes = host.GetSample().GetMemoryAvailableBytes() - host.GetSample().GetMemorySafetyBytes() - host.GetHeadroomBytes()
		return nil
	})
	return bytes
}

// Under the policy limit the kernel keeps an engine to its entitlement. If an engine wants more,
// the kernel ends it. The agent recognises that, also if no agent ran at the time, and the reason
// names the limit. Other engines go on.
func TestLimitedEnginesAreEndedByTheKernel(t *testing.T) {
	t.Parallel()
	parent := fmt.Sprintf("/bursar-test-losses-%d", os.Getpid())
	t.Cleanup(func() { removeCgroups(t, parent) })
	p := startPlace(t, settings{engines: "  cgroups: direct\n  cgroup: " + parent + "\n  policies: [{onOverUse: limit, tolerance: \"0%\"}]\n"})
	fair := p.launched("fair")
	fair.tell(fmt.Sprint("hold ", engineMemory/2))
	for _, away := range []bool{false, true} {
		greedy := p.three(fmt.Sprint("greedy-", away, "-"))
		for _, e := range greedy {
			p.awaitLimit(e)
		}
		p.right(append(greedy, fair))
		if away {
			p.agent.Kill()
		}
		for _, e := range greedy {
			e.send(fmt.Sprint("hold ", 2*engineMemory))
			e.awaitEnd()
		}
		if away {
			p.startAgent()
		}
		for _, e := range greedy {
			end := p.ended(e)
			t.Logf("%s: %s (%v)", e.name, end.GetReason(), end.GetExitStatus())
			if !end.GetExitStatus().GetOutOfMemory() || !strings.Contains(end.GetReason(), "killed for lack of memory: its cgroup's limit of 64MiB") {
				t.Errorf("engine %s ended for %q, with %v", e.name, end.GetReason(), end.GetExitStatus())
			}
		}
		p.right([]*engine{fair})
		if got := p.metric("unix", p.socket, "bursar_agent_out_of_memory_kills_total"); !away && got != 3 {
			t.Errorf("%v kills were counted, want 3", got)
		}
	}
	fair.end(0, "")
	p.endedWith(fair, 0)
}

// cgroupFolders are the folders of a cgroup, in every hierarchy that has it.
func cgroupFolders(t *testing.T, name string) []string {
	t.Helper()
	found, err := filepath.Glob("/sys/fs/cgroup/*" + name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/sys/fs/cgroup" + name); err == nil { // version 2
		found = append(found, "/sys/fs/cgroup"+name)
	}
	return found
}

// awaitLimit waits until an engine is in a cgroup whose limit is its entitlement.
func (p *place) awaitLimit(e *engine) {
	p.t.Helper()
	eventually(p.t, "engine "+e.name+" is limited", func() error {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", e.pid))
		if err != nil {
			p.t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
			if !strings.Contains(fields[2], "/bursar-engines/") {
				continue
			}
			for _, folder := range cgroupFolders(p.t, fields[2]) {
				for _, file := range []string{"memory.max", "memory.limit_in_bytes"} {
					if limit, err := os.ReadFile(filepath.Join(folder, file)); err == nil && strings.TrimSpace(string(limit)) == fmt.Sprint(engineMemory*mib) {
						return nil
					}
				}
			}
		}
		return fmt.Errorf("it is in %s", content)
	})
}

// removeCgroups waits until cgroups are empty and removes them.
func removeCgroups(t *testing.T, parent string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for range ticker.C {
		left := cgroupFolders(t, parent)
		for _, folder := range left {
			entries, _ := filepath.Glob(folder + "/bursar-engines/*")
			for _, entry := range entries {
				// Files cannot be removed, and a cgroup with processes that are being killed goes
				// later.
				_ = os.Remove(entry)
			}
			_ = os.Remove(folder + "/bursar-engines")
			_ = os.Remove(folder)
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("cgroups %v stay", left)
			return
		}
	}
}

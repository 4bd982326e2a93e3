package agent_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/agent/cgroup"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// playedCgroups are cgroups that no kernel knows of.
type playedCgroups struct {
	mu     sync.Mutex
	limits map[string]cgroup.Limits // guarded by mu; those in force
	kills  map[string]int64         // guarded by mu
	empty  map[string]bool          // guarded by mu; those without a process
	// guarded by mu; bytes of each engine, below which no limit can be set
	held int64
	// guarded by mu; how often an engine that is launched gets no limits
	refuses int
	// guarded by mu; the kernel has no limit although it took one
	forgets bool
}

func (p *playedCgroups) Name() string { return "played" }

func (p *playedCgroups) Adopt(ctx context.Context, id string, limits cgroup.Limits, members cgroup.Members) (string, error) {
	if pids, err := members(); err != nil || len(pids) == 0 {
		return "", errors.Join(cgroup.ErrNone, err)
	}
	p.mu.Lock()
	if _, known := p.limits[id]; !known {
		p.limits[id] = cgroup.Limits{}
	}
	p.mu.Unlock()
	return "", p.Set(ctx, id, limits)
}

func (p *playedCgroups) Enter(_ context.Context, id string, limits cgroup.Limits, _ int32) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits[id] = cgroup.Limits{}
	if p.refuses--; p.refuses >= 0 {
		return "/played/" + id + ".adopted", errors.New("the kernel has other things to do")
	}
	p.limits[id] = limits
	return "/played/" + id + ".adopted", nil
}

func (p *playedCgroups) PathOf(int32) (string, error) { return "/somewhere", nil }

func (p *playedCgroups) Lost(int32) (string, error) { return "", nil }

func (p *playedCgroups) Set(_ context.Context, id string, limits cgroup.Limits) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.limits[id]; !known {
		return cgroup.ErrNone
	}
	if limits.MemoryMax != 0 && limits.MemoryMax < p.held {
		return fmt.Errorf("%d bytes: %w", limits.MemoryMax, cgroup.ErrInUse)
	}
	p.limits[id] = limits
	return nil
}

func (p *playedCgroups) Facts(_ context.Context, id string) (cgroup.Facts, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.limits[id]; !known {
		return cgroup.Facts{}, cgroup.ErrNone
	}
	most := p.limits[id].MemoryMax
	if p.forgets {
		most = 0
	}
	return cgroup.Facts{OOMKills: p.kills[id], Empty: p.empty[id], MemoryMax: most, AtLimit: most > 0 && p.kills[id] > 0}, nil
}

func (p *playedCgroups) Find(context.Context) (list []cgroup.Found, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range maps.Keys(p.limits) {
		list = append(list, cgroup.Found{ID: id})
	}
	return list, nil
}

func (p *playedCgroups) Freeze(context.Context, string) (bool, error) {
	return false, cgroup.ErrNoFreezing
}

func (p *playedCgroups) Thaw(string) error { return nil }

func (p *playedCgroups) Remove(_ context.Context, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.limits, id)
	return nil
}

func (p *playedCgroups) Close() error { return nil }

func (p *playedCgroups) memoryMax(id string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limits[id].MemoryMax
}

func (p *playedCgroups) has(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.limits[id]
	return known
}

func (p *playedCgroups) kill(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kills[id]++
}

// inPlayed is an agent whose engines are kept to their entitlement by played cgroups.
func inPlayed(s *subject) *playedCgroups {
	p := &playedCgroups{limits: make(map[string]cgroup.Limits), kills: make(map[string]int64), empty: make(map[string]bool)}
	s.cgroups = p
	s.config.Engines.Cgroups, s.config.Engines.Policies = "auto", []agent.PolicyConfig{{OnOverUse: "limit", Tolerance: "0%"}}
	return p
}

const memoryKills = bursarv1.IncidentKind_INCIDENT_KIND_MEMORY_KILL

const killsCounted = "bursar_agent_out_of_memory_kills_total"

func TestLimitThatIsRaisedDoesNotWaitForOneThatCouldNotBeSet(t *testing.T) {
	s := newSubject(t)
	played := inPlayed(s)
	s.start()
	a, _ := s.engine(40, "exec sleep 1000")
	until(t, "it is limited", func() bool { return played.memoryMax(a.GetId()) == 40*mib })
	played.mu.Lock()
	played.held = 30 * mib
	played.mu.Unlock()
	s.resize(a.GetId(), 20)
	until(t, "it is tried", func() bool { return s.metric("bursar_agent_cgroup_failures_total") == "1" })
	s.resize(a.GetId(), 80)
	until(t, "the engine may use what it is entitled to", func() bool { return played.memoryMax(a.GetId()) == 80*mib })
	until(t, "the coordinator knows of the limit that did not hold", func() bool {
		got := s.coordinator.awaitState(a.GetId(), active).GetIncidents()
		return len(got) == 1 && got[0].GetKind() == bursarv1.IncidentKind_INCIDENT_KIND_LIMIT_NOT_HELD && got[0].GetCount() == 1 &&
			got[0].GetBound() == 20*mib && !got[0].GetOngoing()
	})
}

func TestKillsBeforeARestartAreOld(t *testing.T) {
	s := newSubject(t)
	played := inPlayed(s)
	s.start()
	a, cmd := s.engine(40, "exec sleep 1000")
	until(t, "it is limited", func() bool { return played.memoryMax(a.GetId()) != 0 })
	played.kill(a.GetId()) // one of its processes, not its first
	until(t, "the kill is counted", func() bool { return s.metric(killsCounted) == "1" })
	s.crash()
	s.start()
	s.ticks(3)
	if got := s.metric(killsCounted); got != "0" {
		t.Errorf("%s kills were counted once more", got)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	// its own end was no lack of memory, and one of its processes was killed for that
	end := s.coordinator.awaitState(a.GetId(), released)
	if strings.HasPrefix(end.GetReason(), "killed for lack of memory") || !end.GetExitStatus().GetOutOfMemory() {
		t.Errorf("ended: %q, %v; it was killed by hand", end.GetReason(), end.GetExitStatus())
	}
	if got := end.GetIncidents(); len(got) != 1 || got[0].GetKind() != memoryKills || got[0].GetCount() != 1 {
		t.Errorf("incidents: %v", got)
	}
}

// The process is still there when the agent looks, its cgroup is not: a launcher that has just
// taken note of the end tells of it next.
func TestKillWhileNoAgentWasThereIsWhyAnEngineEnded(t *testing.T) {
	s := newSubject(t)
	played := inPlayed(s)
	s.start()
	a, cmd := s.engine(40, "exec sleep 1000")
	until(t, "it is limited", func() bool { return played.memoryMax(a.GetId()) != 0 })
	s.crash()
	played.kill(a.GetId())
	played.mu.Lock()
	played.empty[a.GetId()] = true
	played.mu.Unlock()
	s.start()
	s.ticks(3)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if end := s.coordinator.awaitState(a.GetId(), released); !end.GetExitStatus().GetOutOfMemory() {
		t.Errorf("ended: %q, %v; want for lack of memory", end.GetReason(), end.GetExitStatus())
	}
}

func TestEngineThatIsStoppedWasNotKilledForLackOfMemory(t *testing.T) {
	s := newSubject(t)
	played := inPlayed(s)
	s.start()
	a, cmd := s.engine(40, `trap "" TERM; exec sleep 1000`)
	until(t, "it is limited", func() bool { return played.memoryMax(a.GetId()) != 0 })
	played.kill(a.GetId()) // one of its processes, not its first
	until(t, "the kill is counted", func() bool { return s.metric(killsCounted) == "1" })
	if _, err := s.Stop(t.Context(), &bursarv1.StopRequest{Id: a.GetId(), Grace: durationpb.New(0), Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	end := s.coordinator.awaitState(a.GetId(), released)
	if !end.GetExitStatus().GetOutOfMemory() || end.GetReason() != "stopped: enough" {
		t.Errorf("ended: %q, %v; it was stopped", end.GetReason(), end.GetExitStatus())
	}
}

// The kernel's log does not know of these kills, as in a container, where it cannot be read.
func TestWhoseMemoryItWasIsSaidWhereItIsKnown(t *testing.T) {
	const lack = "killed for lack of memory"
	for name, test := range map[string]struct {
		policy agent.PolicyConfig
		want   string
	}{
		"its own limit": {agent.PolicyConfig{OnOverUse: "limit", Tolerance: "0%"}, lack + ": its cgroup's limit of 40MiB"},
		"not known":     {agent.PolicyConfig{OnOverUse: "observe", Cgroup: new(true)}, lack},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t)
			played := inPlayed(s)
			s.config.Engines.Policies = []agent.PolicyConfig{test.policy}
			s.start()
			a, cmd := s.engine(40, "exec sleep 1000")
			until(t, "it is in a cgroup", func() bool { return played.has(a.GetId()) })
			played.kill(a.GetId())
			until(t, "the kill is counted", func() bool { return s.metric(killsCounted) == "1" })
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if end := s.coordinator.awaitState(a.GetId(), released); end.GetReason() != test.want || !end.GetExitStatus().GetOutOfMemory() {
				t.Errorf("ended: %q, %v", end.GetReason(), end.GetExitStatus())
			}
		})
	}
}

func TestLimitsOfALaunchedEngineAreTriedAgain(t *testing.T) {
	s := newLauncher(t)
	played := inPlayed(s)
	played.refuses = 1
	s.start()
	id := s.mustLaunch("exec sleep 1000").GetAllocation().GetId()
	until(t, "it is limited", func() bool { return played.memoryMax(id) == 10*mib })
}

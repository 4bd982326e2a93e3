package tracker

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/internal/endreason"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Left is a process of an engine that cannot be found among the descendants of the main process or
// of the engine's reaper. A restarted agent would not find it.
type Left struct {
	PID       int32  `json:"pid"`
	StartTime uint64 `json:"startTime"`
	// Descends: an agent has seen that it descends from the main process. Otherwise its session or
	// process group shows that it belongs to the engine.
	Descends bool `json:"descends,omitempty"`
}

// leftover is the state of an engine's other processes when its main process has ended.
type leftover struct {
	// end is how the main process ended while other processes lived on, and reported the last end
	// that was sent. Nil: the main process lives.
	end, reported *bursarv1.LeaderEnd
	// asked is when the agent asked a coordinator to stop the others; zero: not yet.
	asked time.Time
	// left are the processes to remember, by pid.
	left []Left
}

// LeaderEnd returns how the main process of an engine ended while others of it lived on. It is nil
// if the main process lives, or if there is no such engine.
func (t *Tracker) LeaderEnd(id string) *bursarv1.LeaderEnd {
	if e := t.entries[id]; e != nil && e.tracked() {
		return e.over.end
	}
	return nil
}

// SetLeaderExit adds the exit status of an engine's main process, if it was unknown.
func (t *Tracker) SetLeaderExit(id string, exit *bursarv1.ExitStatus) {
	e := t.entries[id]
	if e == nil || !e.tracked() || e.over.end == nil || e.over.end.GetExitStatus() != nil {
		return
	}
	end := proto.CloneOf(e.over.end)
	end.ExitStatus = exit
	t.setLeaderEnd(e, end)
}

// noteLeaderEnd takes the state of an engine's main process and of its other processes from a
// measurement. The first measurement has the best time of the end; a later one may have the status.
func (t *Tracker) noteLeaderEnd(e *entry, usage *Usage) {
	if end := usage.LeaderEnd; end != nil {
		end = proto.CloneOf(end)
		end.Policy = leaderEndPolicy(t.policies.For(e.grant.GetLabels()).OnLeaderEnd)
		if known := e.over.end; known != nil {
			end.Time = known.GetTime()
			if end.GetExitStatus() == nil {
				end.ExitStatus = known.GetExitStatus()
			}
		}
		t.setLeaderEnd(e, end)
	}
	if !slices.Equal(e.over.left, usage.Left) {
		e.over.left = usage.Left
		t.unsaved.add(e.grant.GetId())
	}
}

func (t *Tracker) setLeaderEnd(e *entry, end *bursarv1.LeaderEnd) {
	if proto.Equal(end, e.over.end) {
		return
	}
	e.over.end = end
	t.unsaved.add(e.grant.GetId())
	t.urgent = true
}

func leaderEndPolicy(p policy.LeaderEnd) bursarv1.LeaderEndPolicy {
	if p == policy.StopAtLeaderEnd {
		return bursarv1.LeaderEndPolicy_LEADER_END_POLICY_STOP
	}
	return bursarv1.LeaderEndPolicy_LEADER_END_POLICY_KEEP
}

// leaderStop returns the order to stop the other processes, if the policy demands it and the agent
// has not asked a coordinator within the last StopGrace or tick, whichever is longer.
func (t *Tracker) leaderStop(e *entry, now time.Time) (DueStop, bool) {
	end := e.over.end
	if end == nil {
		return DueStop{}, false
	}
	p := t.policies.For(e.grant.GetLabels())
	if p.OnLeaderEnd != policy.StopAtLeaderEnd || !e.over.asked.IsZero() && now.Sub(e.over.asked) < max(p.StopGrace, t.tick) {
		return DueStop{}, false
	}
	return DueStop{
		ID: e.grant.GetId(), Grace: p.StopGrace, AtLeaderEnd: true,
		Reason: fmt.Sprintf("its main process %s at %s (policy onLeaderEnd: stop)", endreason.Past(end.GetExitStatus()), end.GetTime().AsTime().Format(time.RFC3339)),
	}, true
}

// IsReaper reports whether a process is the reaper of another engine. Then its descendants need not
// all belong to one engine.
func (t *Tracker) IsReaper(pid int32, startTime uint64, but string) bool {
	for id, e := range t.entries {
		if p := e.grant.GetProcess(); id != but && e.tracked() && p.GetReaperPid() == pid && p.GetReaperStartTime() == startTime {
			return true
		}
	}
	return false
}

// Reaper returns the reaper of an engine, unless it has none or shares it with another engine.
func (t *Tracker) Reaper(id string) (pid int32, startTime uint64) {
	e := t.entries[id]
	if e == nil || !e.tracked() || !t.identified(e) {
		return 0, 0
	}
	pid, startTime = e.grant.GetProcess().GetReaperPid(), e.grant.GetProcess().GetReaperStartTime()
	if pid == 0 || t.IsReaper(pid, startTime, id) {
		return 0, 0
	}
	return pid, startTime
}

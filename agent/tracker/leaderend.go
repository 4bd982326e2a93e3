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

// Left is a process of an engine that is not found by going down from the main process, nor from
// the engine's reaper: an agent that starts again would not find it.
type Left struct {
	PID       int32  `json:"pid"`
	StartTime uint64 `json:"startTime"`
	// Descends: it was seen to descend from the main process. Else the number of its session or
	// group says that it is the engine's.
	Descends bool `json:"descends,omitempty"`
}

// leftover is what is known of an engine beyond its main process.
type leftover struct {
	// end is how the main process ended while others lived on, and reported what was sent of it.
	// Nil: it lives.
	end, reported *bursarv1.LeaderEnd
	// asked is when a coordinator was asked to stop the others; zero: not yet.
	asked time.Time
	// left are processes that have to be remembered, by pid.
	left []Left
}

// LeaderEnd is how the main process of an engine ended while others of it lived on; nil: it lives,
// or there is no such engine.
func (t *Tracker) LeaderEnd(id string) *bursarv1.LeaderEnd {
	if e := t.entries[id]; e != nil && e.tracked() {
		return e.over.end
	}
	return nil
}

// SetLeaderExit completes how the main process of an engine ended, if nobody knew that.
func (t *Tracker) SetLeaderExit(id string, exit *bursarv1.ExitStatus) {
	e := t.entries[id]
	if e == nil || !e.tracked() || e.over.end == nil || e.over.end.GetExitStatus() != nil {
		return
	}
	end := proto.CloneOf(e.over.end)
	end.ExitStatus = exit
	t.setLeaderEnd(e, end)
}

// noteLeaderEnd takes what a measurement says of an engine's main process and of the others. When
// it ended is known best at the first time; how it ended may be known later.
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

// leaderStop returns the order to stop what lives on, if the policy wants that and no coordinator
// was asked within the last StopGrace, or a tick.
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

// IsReaper reports whether a process is the reaper of another engine. What descends from it is not
// known to be one engine's then.
func (t *Tracker) IsReaper(pid int32, startTime uint64, but string) bool {
	for id, e := range t.entries {
		if p := e.grant.GetProcess(); id != but && e.tracked() && p.GetReaperPid() == pid && p.GetReaperStartTime() == startTime {
			return true
		}
	}
	return false
}

// Reaper returns the reaper of an engine, if it has one that no other engine has.
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

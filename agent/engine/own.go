package engine

import (
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// onlyHeardOf is the reason why an agent sends no signal to an engine.
const onlyHeardOf = "this agent knows the process of the engine from a coordinator alone, and ends nothing on that word: end it on the host"

// ownProcess returns the process of an engine as the agent itself has found it: when the agent
// confirmed the engine, or launched it. A coordinator can name any process of the host, and so can
// callers of the coordinator. False: the agent has only heard of the process, or of none.
func (s *Engines) ownProcess(id string) (own *bursarv1.Process, known bool) {
	var current tracker.Engine
	s.state.Locked(func(t *tracker.Tracker) { current, known = t.Engine(id) })
	p := current.Process
	if !known || p.GetPid() == 0 || p.GetStartTime() == 0 {
		return nil, false
	}
	if current.Identified {
		return p, true
	}
	// An agent that was killed may have lost all but the record of its launch.
	if _, launched := s.keepers.of(id, p.GetPid(), p.GetStartTime()); !launched {
		return nil, false
	}
	note, err := s.records.Note(id)
	if err != nil {
		return nil, false
	}
	own = proto.CloneOf(p)
	own.Uid = &note.UID
	return own, true
}

// refuseStop reports that an engine is not stopped, if there is one.
func (s *Engines) refuseStop(id string) {
	news := false
	s.state.Locked(func(t *tracker.Tracker) { news = t.SetStopError(id, onlyHeardOf) })
	if news {
		s.log.Warn("an engine is not stopped", "audit", true, "order", "stop", "allocation_id", id, "reason", onlyHeardOf)
	}
}

package tracker

import (
	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Shown returns an allocation that is held, as All does, or whose engine has ended and of which no
// coordinator has heard that: then it is as it was, and end says how it ended. Both are nil for any
// other.
func (t *Tracker) Shown(id string) (a *bursarv1.Allocation, end *bursarv1.EngineEnd) {
	e := t.entries[id]
	switch {
	case e == nil:
		return nil, nil
	case e.phase == held:
		return e.shown(), nil
	case e.phase == ended:
		a = proto.CloneOf(e.grant)
		a.Seal = nil // between the agent and the coordinators
		return a, e.tombstone
	}
	return nil, nil
}

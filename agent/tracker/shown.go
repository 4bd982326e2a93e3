package tracker

import (
	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Shown returns an allocation that is held, in the form of All, or one whose engine has ended and
// whose end no coordinator knows yet. In the second case end says how it ended. Both results are
// nil for any other allocation.
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

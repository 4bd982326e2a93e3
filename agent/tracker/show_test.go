package tracker_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A confirmation that a coordinator will refuse is shown first: anybody can send one for anybody's engine, and must not make it one that
// is neither stopped nor kept to its limits nor saved.
func TestNoConfirmationTakesAnEngineAwayThatWasShown(t *testing.T) {
	own := engine("a", 3, 100, 42)
	k := registered(t, own)
	other := &bursarv1.Process{Pid: 43, StartTime: 9, BootId: "boot-1"}
	k.Show("a", other)
	if list := k.Engines(); len(list) != 1 || !list[0].Identified || list[0].Process.GetPid() != 42 {
		t.Errorf("engines: %+v", list)
	}
	if saved := k.Snapshot().Engines; len(saved) != 1 {
		t.Errorf("saved: %+v", saved)
	}
	// Where the ledger says that it is the engine now, it is.
	moved := proto.CloneOf(own)
	moved.Process, moved.Revision = other, 12
	k.Observe(start, moved, 5)
	k.Show("a", other)
	if list := k.Engines(); !list[0].Identified || list[0].Process.GetPid() != 43 {
		t.Errorf("engines: %+v", list)
	}
}

package tracker_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A confirmation that a coordinator will refuse is shown first. Any caller can send one for any
// engine. It must not exempt that engine from stops, limits or saving.
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
	// If the ledger says that it is the engine now, it is.
	moved := proto.CloneOf(own)
	moved.Process, moved.Revision = other, 12
	k.Observe(start, moved, 5)
	k.Show("a", other)
	if list := k.Engines(); !list[0].Identified || list[0].Process.GetPid() != 43 {
		t.Errorf("engines: %+v", list)
	}
}

// Processes in the engine's cgroup are ended with it if they belong to the engine's user. A
// coordinator must set neither cgroup nor user, because any caller may have given them to it.
func TestTheCgroupAndUserOfAnEngineAreWhatTheAgentHasFound(t *testing.T) {
	found := &bursarv1.Process{Pid: 42, StartTime: 7, BootId: "boot-1", Cgroup: "/own", Uid: new(uint32(1000))}
	said := engine("a", 3, 100, 42)
	said.Process = &bursarv1.Process{Pid: 42, StartTime: 7, BootId: "boot-1", Cgroup: "/system.slice", Uid: new(uint32(0))}
	same := func(t *testing.T, k *tracker.Tracker, when string) {
		t.Helper()
		grant, _ := k.Get("a")
		for _, got := range []*bursarv1.Process{grant.GetProcess(), k.Engines()[0].Process} {
			if !proto.Equal(got, found) {
				t.Errorf("%s: %v", when, got)
			}
		}
	}
	k := registered(t, said)
	k.Show("a", found)
	same(t, k, "shown")
	again := proto.CloneOf(said)
	again.Revision = 12
	k.Observe(start, again, 5)
	same(t, k, "said again")
	found = proto.CloneOf(found)
	found.Cgroup = "/moved"
	k.SetProcess("a", found)
	again = proto.CloneOf(again)
	again.Revision = 13
	k.Observe(start, again, 5)
	same(t, k, "moved by the agent")
	if said.GetProcess().GetCgroup() != "/system.slice" {
		t.Error("the coordinator's answer was changed")
	}
}

package agent_test

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A user can stop an engine of this host while no coordinator answers, as by kill. The coordinator
// hears of the end, with the reason, when it is back.
func TestAnEngineIsStoppedWithoutACoordinator(t *testing.T) {
	s := run(t)
	a, cmd := s.engine(10, "exec sleep 1000")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	s.coordinator.goAway()
	began := time.Now()
	res, err := s.Stop(t.Context(), &bursarv1.StopRequest{Id: a.GetId(), Reason: "too slow"})
	if err != nil || !res.GetAllocation().GetStopping() || res.GetAllocation().GetId() != a.GetId() {
		t.Fatalf("%v, %v", res, err)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("it took %s", took)
	}
	<-ended
	s.coordinator.comeBack()
	reason := ""
	until(t, "the coordinator hears of the end", func() bool {
		s.coordinator.do(func() {
			for _, sync := range s.coordinator.syncs {
				for _, end := range sync.GetEnded() {
					reason = end.GetReason()
				}
			}
		})
		return reason != ""
	})
	if !strings.Contains(reason, "too slow (stopped by ") || !strings.Contains(reason, "while no coordinator answered") {
		t.Errorf("the reason is %q", reason)
	}
	if !strings.Contains(s.log.String(), "audit=true order=stop") {
		t.Error("no audit record")
	}
}

// What the agent cannot stop by itself waits for a coordinator, as before.
func TestStopsThatNeedACoordinator(t *testing.T) {
	s := run(t)
	reservation := s.allocate(10)
	heard, cmd := s.engine(10, "exec sleep 1000")
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	again := s.allocate(10)
	s.coordinator.do(func() {
		s.coordinator.put(s.coordinator.allocations[again.GetId()], func(a *bursarv1.Allocation) {
			a.Launch, a.Phase = &bursarv1.Launch{Retries: 1}, bursarv1.Phase_PHASE_STARTING
		})
	})
	starting := exec.Command("sleep", "1000")
	if err := starting.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = starting.Process.Kill()
		_ = starting.Wait()
	})
	if _, err := s.confirm(again.GetId(), starting.Process.Pid); err != nil {
		t.Fatal(err)
	}
	s.coordinator.goAway()
	var asking sync.WaitGroup
	for name, request := range map[string]*bursarv1.StopRequest{
		"an engine that would be started again": {Id: again.GetId()},
		"a reservation":                         {Id: reservation.GetId()},
		"an unknown allocation":                 {Id: "unknown"},
		"a grace below zero":                    {Id: heard.GetId(), Grace: durationpb.New(-time.Second)},
		"a grace of a day":                      {Id: heard.GetId(), Grace: durationpb.New(24 * time.Hour)},
	} {
		asking.Go(func() {
			if _, err := s.Stop(t.Context(), request); connect.CodeOf(err) != connect.CodeUnavailable {
				t.Errorf("%s: %v, want UNAVAILABLE", name, err)
			}
		})
	}
	asking.Wait()
	if zombie(cmd.Process.Pid) || zombie(starting.Process.Pid) {
		t.Error("the engine was ended")
	}
}

// The rights are those that the coordinator would have checked: a stranger stops nothing.
func TestAStrangerStopsNothingWithoutACoordinator(t *testing.T) {
	needsRoot(t)
	s := launcher(t)
	r := s.mustLaunch(tellsSignals, asNobody) // of user alice
	id := r.GetAllocation().GetId()
	said(t, r.GetLogDirectory(), "on\n")
	s.coordinator.goAway()
	const stranger = 61234
	if out := s.as(stranger, "stop", id); !strings.HasPrefix(out, "unavailable") {
		t.Errorf("a stranger's stop: %s", out)
	}
	if _, err := os.Stat(r.GetLogDirectory()); err != nil {
		t.Fatal(err)
	}
	said(t, r.GetLogDirectory(), "on\n")
	if out := s.as(nobody, "stop", id); out != "stopped" {
		t.Errorf("who runs it stops it: %s", out)
	}
	said(t, r.GetLogDirectory(), "on\nTERM\n")
	s.coordinator.comeBack()
}

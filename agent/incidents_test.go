package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/bursar/bursar/agent"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// wantKills has an allocation with incidents of kills for lack of memory, at a limit in bytes; 0:
// that is not known.
func wantKills(t *testing.T, a *bursarv1.Allocation, count, bound int64) {
	t.Helper()
	for _, i := range a.GetIncidents() {
		if i.GetKind() == memoryKills && i.GetDimension() == "memory" && i.GetCount() == count && i.GetBound() == bound && i.GetLastTime() != nil {
			return
		}
	}
	t.Errorf("incidents: %v; want %d kills at %d bytes", a.GetIncidents(), count, bound)
}

// A process that is killed in an engine that lives on is known at once, over a restart of the
// agent, and after the end. Kills while no agent runs count, too, and none counts twice.
func TestKillsInALivingEngineAreKnown(t *testing.T) {
	s := contained(t, agent.PolicyConfig{OnOverUse: "limit", Tolerance: "0%"})
	s.start()
	in := folder(t)
	// the kernel prefers what holds most, and the shell holds little
	const spawner = `n=0; while :; do n=$((n+1)); until [ -e %s/$n ]; do sleep 0.02; done; dd if=/dev/zero of=/dev/null bs=256M count=1 status=none; : > %s/done$n; done`
	a, cmd := s.engine(60, fmt.Sprintf(spawner, in, in))
	s.inCgroup(a)
	kill := func(n int) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(in, strconv.Itoa(n)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		until(t, "its process is killed", func() bool { _, err := os.Stat(filepath.Join(in, "done"+strconv.Itoa(n))); return err == nil })
	}
	known := func(count int64) {
		t.Helper()
		until(t, fmt.Sprintf("%d kills are known", count), func() bool {
			got := s.coordinator.awaitState(a.GetId(), active).GetIncidents()
			return len(got) == 1 && got[0].GetCount() == count
		})
	}
	kill(1)
	known(1)
	kill(2)
	known(2)
	s.crash()
	kill(3)
	s.start()
	known(3)
	s.ticks(2)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	end := s.coordinator.awaitState(a.GetId(), released)
	wantKills(t, end, 3, 60*mib)
	if !end.GetExitStatus().GetOutOfMemory() {
		t.Errorf("ended: %q, %v", end.GetReason(), end.GetExitStatus())
	}
}

//go:build linux

package client

import (
	"os/exec"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A launcher reports the kernel's accounting of its process; a peak that may be the launcher's own
// is not reported.
func TestALauncherSaysWhatTheKernelKnows(t *testing.T) {
	command := exec.Command("sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	var request bursarv1.ReleaseRequest
	sayUse(&request, command.ProcessState, 0)
	if request.GetMeasuredPeak().GetMemoryBytes() < 100<<10 || request.GetCpuTime().AsDuration() <= 0 {
		t.Errorf("%v", &request)
	}
	request.Reset()
	sayUse(&request, command.ProcessState, 1<<40)
	if request.MeasuredPeak != nil || request.CpuTime == nil {
		t.Errorf("below the launcher's own: %v", &request)
	}
	request.Reset()
	sayUse(&request, nil, 0)
	if request.CpuTime != nil {
		t.Errorf("not started: %v", &request)
	}
	if ownRSS() == 0 {
		t.Error("this process has no mark")
	}
}

//go:build linux

package client

import (
	"os"
	"syscall"

	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// sayUse says in a release what the kernel knows of a process that has ended, and of those that it
// has waited for. The mark of a process begins with that of the process that has started it: a mark
// that is not above floor, in bytes, says nothing.
func sayUse(request *bursarv1.ReleaseRequest, state *os.ProcessState, floor int64) {
	if state == nil {
		return
	}
	used, known := state.SysUsage().(*syscall.Rusage)
	if !known {
		return
	}
	if most := int64(used.Maxrss) << 10; most > floor { //nolint:unconvert // 32 bits on some machines
		request.MeasuredPeak = &bursarv1.Resource{MemoryBytes: &most}
	}
	request.CpuTime = durationpb.New(state.UserTime() + state.SystemTime())
}

// ownRSS is the most that this process has had in RAM, in bytes.
func ownRSS() int64 {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return int64(used.Maxrss) << 10 //nolint:unconvert // as above
}

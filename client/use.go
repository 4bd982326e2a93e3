//go:build linux

package client

import (
	"os"
	"syscall"

	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// sayUse adds to a release the kernel's accounting of an ended process and of the children that it
// waited for. The peak of a process starts at that of its parent: a peak that is not above floor,
// in bytes, means nothing.
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

// ownRSS returns the peak RSS of this process, in bytes.
func ownRSS() int64 {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return int64(used.Maxrss) << 10 //nolint:unconvert // as above
}

package process

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// pidfdInfo is struct pidfd_info of linux/pidfd.h in its first version, 64 bytes.
type pidfdInfo struct {
	mask     uint64 // in: what is asked for; out: what there is
	_        uint64 // cgroup
	_        [11]uint32
	exitCode int32 // as wait(2) encodes it
}

// getInfo is PIDFD_GET_INFO, _IOWR(0xff, 11, struct pidfd_info).
const getInfo = 3<<30 | unsafe.Sizeof(pidfdInfo{})<<16 | 0xff<<8 | 11

func exitStatus(pidfd uintptr) *bursarv1.ExitStatus {
	info := pidfdInfo{mask: unix.PIDFD_INFO_EXIT}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, pidfd, getInfo, uintptr(unsafe.Pointer(&info))) //nolint:gosec // the only way to make this call
	if errno != 0 || info.mask&unix.PIDFD_INFO_EXIT == 0 {
		return nil
	}
	status := syscall.WaitStatus(info.exitCode) //nolint:gosec // bits, not a number
	if status.Signaled() {
		return &bursarv1.ExitStatus{Signal: int32(status.Signal())} //nolint:gosec // at most 64
	}
	return &bursarv1.ExitStatus{Code: new(int32(status.ExitStatus()))} //nolint:gosec // at most 255
}

package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// pidfdInfo is struct pidfd_info of linux/pidfd.h in its first version, 64 bytes.
type pidfdInfo struct {
	mask     uint64 // in: the requested fields; out: the fields present
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
	return waitStatus(syscall.WaitStatus(info.exitCode)) //nolint:gosec // bits, not a number
}

// zombieStatus reads the exit status of a zombie: field 52 of /proc/PID/stat. The kernel shows 0 to
// callers without the right to inspect the process, so 0 counts only for root.
func (h *Handle) zombieStatus() *bursarv1.ExitStatus {
	text, err := os.ReadFile(filepath.Join(h.proc, strconv.Itoa(int(h.ref.PID)), "stat"))
	if err != nil {
		return nil // the process is gone
	}
	_, behind, _ := strings.Cut(string(text[max(0, bytes.LastIndexByte(text, ')')):]), ") ")
	fields := strings.Fields(behind) // from field 3 on
	if len(fields) < 50 || fields[0] != "Z" || fields[19] != strconv.FormatUint(h.ref.StartTime, 10) {
		return nil
	}
	code, err := strconv.ParseUint(fields[49], 10, 32)
	if err != nil || code == 0 && os.Geteuid() != 0 {
		return nil
	}
	return waitStatus(syscall.WaitStatus(code))
}

func waitStatus(status syscall.WaitStatus) *bursarv1.ExitStatus {
	if status.Signaled() {
		return &bursarv1.ExitStatus{Signal: int32(status.Signal())} //nolint:gosec // at most 64
	}
	return &bursarv1.ExitStatus{Code: new(int32(status.ExitStatus()))} //nolint:gosec // at most 255
}

package keeper

import (
	"time"

	"golang.org/x/sys/unix"
)

// useOf reads the kernel's data about a process, in KiB and microseconds. floor is the mark of the
// process that has started it, in bytes.
func useOf(used *unix.Rusage, floor int64) Use {
	u := Use{
		ProcessBytes: max(0, used.Maxrss) << 10,
		CPUMicros:    (used.Utime.Nano() + used.Stime.Nano()) / int64(time.Microsecond),
	}
	if u.ProcessBytes <= floor {
		u.ProcessBytes = 0
	}
	return u
}

// add adds the use of another process.
func (u *Use) add(other Use) {
	u.ProcessBytes = max(u.ProcessBytes, other.ProcessBytes)
	u.CPUMicros += other.CPUMicros
}

// ownRSS is the most that this process has had in RAM, in bytes.
func ownRSS() int64 {
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return used.Maxrss << 10
}

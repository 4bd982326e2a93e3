package admission

import "golang.org/x/sys/unix"

// Descriptors returns how many connections may be open: most, but no more than a part (numerator of
// denominator) of the descriptors that this process may have. The rest is for files, databases and
// other connections. of is the limit of descriptors if it lowers the result; otherwise 0.
func Descriptors(most, numerator, denominator int) (connections, of int) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return most, 0 // this call does not fail on any kernel
	}
	if part := limit.Cur / uint64(denominator) * uint64(numerator); part < uint64(most) { //nolint:gosec // small numbers
		return max(1, int(part)), int(limit.Cur) //nolint:gosec // smaller than most
	}
	return most, 0
}

package admission

import "golang.org/x/sys/unix"

// Descriptors is how many connections may be open at most: as many as are wanted, but no more than
// a part of the descriptors that this process may have. The rest is for files, databases and other
// connections. of is how many descriptors there are, if there are fewer connections than wanted
// because of that, and else 0.
func Descriptors(most, numerator, denominator int) (connections, of int) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return most, 0 // no kernel fails at that
	}
	if part := limit.Cur / uint64(denominator) * uint64(numerator); part < uint64(most) { //nolint:gosec // small numbers
		return max(1, int(part)), int(limit.Cur) //nolint:gosec // smaller than most
	}
	return most, 0
}

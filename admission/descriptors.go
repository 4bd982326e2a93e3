package admission

import "golang.org/x/sys/unix"

// Descriptors is how many connections may be open at most: as many as are wanted, but no more than a part of the descriptors that this
// process may have. What is left is for files, for databases, and for whoever else connects.
func Descriptors(most, numerator, denominator int) int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return most // no kernel fails at that
	}
	return max(1, int(min(uint64(most), limit.Cur/uint64(denominator)*uint64(numerator)))) //nolint:gosec // small numbers
}

package discovery

// EpochStride is the largest plausible distance of an announced epoch from a certain one (the
// store's, or the last one seen). A genuine epoch is higher by the number of terms that this end
// has missed, for example through a restored backup, or because a host was away. That is some
// thousands if one term per minute is lost for days; the stride is enough for one per second for
// twelve days. A false epoch wastes at most this many numbers, and there are 2^43 times as many.
const EpochStride = 1 << 20

// Believable reports whether an epoch is at most one stride above another.
func Believable(epoch, certain uint64) bool { return epoch <= certain || epoch-certain <= EpochStride }

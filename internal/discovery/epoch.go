package discovery

// EpochStride bounds how far an announced epoch may be above a certain one (the store's, or the
// last that was seen) to be believed. A true one is above it by as many leaderships as the other
// end has missed, such as a restored backup, or a host that was away. These are some thousands if
// one leadership is lost every minute for days. The stride is enough for one a second for twelve
// days. A false one uses up no more numbers than this, and there are 2^43 times as many.
const EpochStride = 1 << 20

// Believable reports whether an epoch is at most one stride above another.
func Believable(epoch, certain uint64) bool { return epoch <= certain || epoch-certain <= EpochStride }

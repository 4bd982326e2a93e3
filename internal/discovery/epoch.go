package discovery

// EpochStride bounds how far above an epoch that is certain (the store's, or the last that was seen) one is believed that somebody
// else says. A true one is above it by as many leaderships as the other end has missed: as a restored backup has, or a host that was
// away. That is some thousands where one is lost every minute for days, and one a second for twelve days. One that is not
// true uses up no more numbers than this, of which there are 2^43 times as many.
const EpochStride = 1 << 20

// Believable reports whether an epoch is at most one stride above another.
func Believable(epoch, certain uint64) bool { return epoch <= certain || epoch-certain <= EpochStride }

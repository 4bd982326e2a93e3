package convert

import (
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// LongestWait is the longest that the contract lets a request wait.
const LongestWait = 7 * 24 * time.Hour

// KeepAlive is how often a stream of a coordinator on which nothing happens says that it is still
// there.
const KeepAlive = 15 * time.Second

// Wait is how long the answer to a request may take because the request asks to wait: LongestWait
// at most, and 0 for one that is answered at once.
func Wait(request any) time.Duration {
	m, can := request.(*bursarv1.AllocateRequest)
	if !can || m.GetAsync() || m.GetStreamed().GetEnded() {
		return 0
	}
	return min(max(0, m.GetWait().AsDuration()), LongestWait)
}

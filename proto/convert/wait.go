package convert

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// LongestWait is the longest that the contract lets a request wait.
const LongestWait = 7 * 24 * time.Hour

// KeepAlive is how often a stream of a coordinator on which nothing happens says that it is still
// there.
const KeepAlive = 15 * time.Second

// shortestWait is what WaitAtMost leaves of a wait. A request that does not wait at all would be
// refused in other words than one whose wait is over.
const shortestWait = time.Millisecond

// Wait is how long the answer to a request may take because the request asks to wait: LongestWait
// at most, and 0 for one that is answered at once.
func Wait(request any) time.Duration {
	m, can := request.(*bursarv1.AllocateRequest)
	if !can || m.GetAsync() || m.GetStreamed().GetEnded() {
		return 0
	}
	return min(max(0, m.GetWait().AsDuration()), LongestWait)
}

// WaitAtMost shortens the wait of a request that is asked again to what is left of it. One that is
// longer than the contract allows stays, and is refused for that.
func WaitAtMost(m *bursarv1.AllocateRequest, left time.Duration) {
	if wait := Wait(m); wait > 0 && wait == m.GetWait().AsDuration() {
		m.Wait = durationpb.New(min(wait, max(shortestWait, left)))
	}
}

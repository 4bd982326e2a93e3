package convert

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// LongestWait is the longest wait that the API allows.
const LongestWait = 7 * 24 * time.Hour

// KeepAlive is how often an idle stream of a coordinator sends a sign of life.
const KeepAlive = 15 * time.Second

// shortestWait is the smallest wait that WaitAtMost leaves. A request without a wait would be
// refused with other words than one whose wait is over.
const shortestWait = time.Millisecond

// Wait returns how long the answer to a request may take because the request asks to wait: at most
// LongestWait, and 0 for a request that is answered at once.
func Wait(request any) time.Duration {
	m, can := request.(*bursarv1.AllocateRequest)
	if !can || m.GetAsync() || m.GetStreamed().GetEnded() {
		return 0
	}
	return min(max(0, m.GetWait().AsDuration()), LongestWait)
}

// WaitAtMost shortens the wait of a repeated request to the remaining time. A wait that is longer
// than the API allows stays, and the request is refused for it.
func WaitAtMost(m *bursarv1.AllocateRequest, left time.Duration) {
	if wait := Wait(m); wait > 0 && wait == m.GetWait().AsDuration() {
		m.Wait = durationpb.New(min(wait, max(shortestWait, left)))
	}
}

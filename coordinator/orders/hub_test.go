package orders

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Orders of any size wait in bounded memory. The agent keeps its stream: it may only be slow, and
// takes what is sent again later.
func TestTheBytesThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		h := attachedHub(t, func(order *bursarv1.AttachResponse) error {
			if order.GetOrder() != nil {
				<-stuck
			}
			return nil
		})
		order := &bursarv1.AttachResponse{Order: &bursarv1.AttachResponse_Launch{Launch: &bursarv1.LaunchOrder{AllocationId: "a", Spec: make([]byte, 64<<10)}}}
		fill := func(give func(string, *bursarv1.AttachResponse) bool) (n int) {
			for give("h1", order) {
				n++
				synctest.Wait()
			}
			return n
		}
		most := queuedBytes / proto.Size(order)
		offered := fill(func(host string, order *bursarv1.AttachResponse) bool { return h.Offer(host, order) == nil })
		if offered != most/2+1 { // one is being sent
			t.Errorf("%d were offered, want %d", offered, most/2+1)
		}
		err := NewSignals(h).Send(t.Context(), "h1", 1, &bursarv1.SignalOrder{Caller: string(make([]byte, 64<<10))})
		if busy, ok := errors.AsType[*NotAttachedError](err); !ok || !busy.Busy {
			t.Errorf("a signal: %v", err)
		}
		if sent := fill(h.Send); offered+sent != most+1 {
			t.Errorf("%d were sent beside, want %d in all", sent, most+1)
		}
		if !h.IsAttached("h1") {
			t.Error("the stream has ended")
		}
		close(stuck)
		synctest.Wait()
		for i := range 2 * most { // each is taken at once
			if h.Offer("h1", order) != nil {
				t.Fatalf("what was taken still counts, after %d", i)
			}
			synctest.Wait()
		}
	})
}

// A stream that opens while the coordinator shuts down would hold the shutdown up.
func TestAClosedHubHasNoStreams(t *testing.T) {
	why := errors.New("shutting down")
	synctest.Test(t, func(t *testing.T) {
		h := New()
		attach := func() error {
			return h.Attach(t.Context(), &bursarv1.AttachRequest{HostId: "h1"}, time.Minute, func(*bursarv1.AttachResponse) error { return nil })
		}
		ended := make(chan error, 1)
		go func() { ended <- attach() }()
		synctest.Wait()
		h.Close(why)
		if err := <-ended; !errors.Is(err, why) {
			t.Errorf("an open stream ended with %v", err)
		}
		if err := attach(); !errors.Is(err, why) {
			t.Errorf("a new one: %v", err)
		}
	})
}

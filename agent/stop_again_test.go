package agent

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// An order comes with every Sync until the engine is gone. One that was followed in vain costs a
// look at all processes of the host.
func TestAnOrderThatWasFollowedInVainIsFollowedAgainAfterAWhile(t *testing.T) {
	overuse(t, newFakeCoordinator("warn"), func(b *bench) {
		order := &bursarv1.StopOrder{AllocationId: "e", Grace: durationpb.New(0), Reason: "because"}
		followed := func() int { return b.logged("an engine is stopped") }
		for range 10 * time.Minute / DefaultTick {
			b.agent.engines.Stop(b.Context(), order)
			b.settle(1)
		}
		if got := followed(); got < 12 || got > 20 {
			t.Errorf("followed %d times within 10 min, want it 1, 2, 4, … 60 s apart", got)
		}
		before := followed()
		order.Reason = "for another reason"
		b.agent.engines.Stop(b.Context(), order)
		b.agent.engines.Stop(b.Context(), order)
		b.settle(1)
		if got := followed() - before; got != 1 {
			t.Errorf("another order was followed %d times at once", got)
		}
	})
}

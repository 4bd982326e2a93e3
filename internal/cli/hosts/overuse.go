package hosts

import (
	"context"
	"time"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/render"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// hostOverUses lists the engines of a host that use more than they are entitled to, and those whose
// main process has ended; none if the caller may not know.
func hostOverUses(ctx context.Context, cl *client.Client, host string, now time.Time) (facts []string) {
	req := &bursarv1.AllocationServiceListRequest{
		HostId: host, PageSize: lookup.MaxPage, States: []bursarv1.AllocationState{bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE},
	}
	for page, err := range cl.ListAllocations(ctx, req) {
		if err != nil {
			return facts
		}
		for _, a := range page.GetAllocations() {
			if text := render.OverUseText(a, now); text != "" {
				facts = append(facts, "over-use", a.GetId()+": "+text)
			}
			if text := render.LeaderEndText(a, now); text != "" {
				facts = append(facts, "main process", "of "+a.GetId()+" "+text)
			}
		}
	}
	return facts
}

package coordinator

import (
	"fmt"
	"strings"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/fakecluster"
)

// Of queues that no cluster has a list shows as many as it is asked for, and says how many there
// are in addition.
func TestQueuesThatOnlyRequestsHaveAreCut(t *testing.T) {
	f, here := queueOf(t, Config{}, nil)
	here.With(func(c *fakecluster.Cluster) {
		for i := range c.Queues {
			c.Queues[i].CreatesChildren = c.Queues[i].Path == "root"
		}
	})
	f.awaitRead()
	list := func(size, most int32) (shown, unreported, left int32) {
		t.Helper()
		req := &bursarv1.QueueServiceListRequest{PageSize: size, MaxUnreported: most}
		for {
			res, err := f.queues.List(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range res.GetQueues() {
				shown++
				if strings.HasPrefix(q.GetPath(), "root.made") {
					unreported++
				}
			}
			left += res.GetLeftOut()
			if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
				return shown, unreported, left
			}
		}
	}
	reported, _, _ := list(0, 1)
	for i := range 5 {
		f.allocate(external("", fmt.Sprintf("root.made%d", i), mib))
	}
	for _, test := range []struct{ size, most, unreported, left int32 }{{0, 0, 5, 0}, {1, 0, 5, 0}, {0, 2, 2, 3}, {1000, 5, 5, 0}, {1000, 20, 5, 0}} {
		shown, unreported, left := list(test.size, test.most)
		if shown != reported+test.unreported || unreported != test.unreported || left != test.left {
			t.Errorf("pages of %d with at most %d: %d shown, %d of them only of requests, %d left out", test.size, test.most, shown, unreported, left)
		}
	}
	for size := int32(1); size < 6; size++ { // each is shown or left out, once
		if shown, _, left := list(size, 1); shown+left != reported+5 {
			t.Errorf("pages of %d: %d shown and %d left out", size, shown, left)
		}
	}
}

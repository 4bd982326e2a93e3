package coordinator

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/internal/readlimit"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// What clients read is bounded, and what coordinators send must stay below that: the first answer
// to a host with 2,000 of the largest allocations, and a page with 1,000 of them.
func TestTheLargestAnswersAreRead(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	// Labels are what an answer has of a request; wishes are the coordinator's alone.
	largest := request("largest", mib)
	for i := 0; proto.Size(largest) < convert.MaxAllocationSize-300; i++ {
		largest.Labels[fmt.Sprintf("label-%02d", i)] = strings.Repeat("x", 255)
	}
	f.allocate(largest)
	answer := f.sync("h1", f.status().GetEpoch(), 2, gib)
	if n := len(answer.GetGrants()); n != 1 {
		t.Fatalf("%d grants", n)
	}
	if size := 2000 * proto.Size(answer); size > readlimit.Agent {
		t.Errorf("2,000 engines are an answer of %d bytes, and an agent reads %d", size, readlimit.Agent)
	}
	page, err := f.allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	// A confirmation may say as much again as the request.
	if size := 1000 * (proto.Size(page) + convert.MaxAllocationSize); size > readlimit.Message {
		t.Errorf("1,000 allocations are a page of %d bytes, and a client reads %d", size, readlimit.Message)
	}
	t.Logf("a request of %d bytes is a grant of %d and a row of %d", proto.Size(largest), proto.Size(answer), proto.Size(page))
}

package lookup

import (
	"context"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/failure"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// allocationNamed finds the allocation with a name: of those that live the only one, else the only
// one that has ended lately. A name that several have is refused, with their ids.
func allocationNamed(ctx context.Context, cl *client.Client, name string) (string, error) {
	for _, ended := range []bool{false, true} {
		page, err := cl.Allocations().List(ctx, &bursarv1.AllocationServiceListRequest{Name: name, PageSize: maxCandidates + 1, Ended: ended})
		if err != nil {
			return "", err
		}
		var ids []string
		for _, a := range page.GetAllocations() {
			if a.GetName() == name { // an older server does not filter
				ids = append(ids, a.GetId())
			}
		}
		switch {
		case len(ids) == 1:
			return ids[0], nil
		case len(ids) > 1:
			return "", &failure.SharedNameError{Name: name, IDs: ids[:min(len(ids), maxCandidates)], More: len(ids) > maxCandidates}
		}
	}
	return "", &failure.NoSuchError{What: "allocation", ID: name}
}

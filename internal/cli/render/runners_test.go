package render

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestWhoStandsInTheWayIsNamedAfterWhatIsShort(t *testing.T) {
	quota := &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_QUOTA, Labels: map[string]string{"team": "x"}}
	host := &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_HOST, Labels: map[string]string{"host": "h1"}}
	runner := &bursarv1.Runner{Id: "3f7k", User: "alice", Resource: &bursarv1.Resource{MemoryBytes: proto.Int64(11 << 30)}}
	in := &bursarv1.InsufficientResources{
		Shortfalls: []*bursarv1.Shortfall{{Account: quota, Dimension: "memory", Requested: 4 << 30, Available: 1 << 30, Limit: 12 << 30}},
		Runners: []*bursarv1.Runners{
			{Account: quota, Dimension: "memory", Largest: []*bursarv1.Runner{runner, {Id: "4abc", User: "bob"}}, LookedAt: 2, Allocations: 2},
			{Account: host, Dimension: "memory", Largest: []*bursarv1.Runner{runner}, LookedAt: 2048, Allocations: 3000},
			{Account: quota, Dimension: "cpu", Largest: []*bursarv1.Runner{runner}, LookedAt: 2048, Allocations: 3000},
			{Account: host, Dimension: "cpu", LookedAt: 1, Allocations: 1}, // none that the caller may see
		},
	}
	want := []string{
		"quota team=x: memory: asked for 4GiB, available 1GiB of 12GiB, short by 3GiB",
		"in the way in quota team=x, by memory: 3f7k of alice (memory=11GiB), 4abc of bob",
		"in the way in host h1, by memory: 3f7k of alice (memory=11GiB); the largest of 2048 that were looked at, of 3000",
		"in the way in quota team=x, by cpu: 3f7k of alice (memory=11GiB); the largest of the oldest 2048, of 3000",
	}
	if got := ShortfallLines(in); !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

// A sample of a large fleet is named as such, and says nothing of the hosts that it does not have.
func TestACountOfASampleSaysOfHowMany(t *testing.T) {
	f := &bursarv1.HostFilters{Total: 3334, Labels: 3334, Fleet: 10_000}
	if got, want := FiltersText(f, nil), "hosts: 0 of 3334 fit, which are a sample of 10000, 3334 by labels"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
	if text := absenceText(&bursarv1.ExplainResponse{Filters: f}); text != "" {
		t.Errorf("a sample says %q", text)
	}
}

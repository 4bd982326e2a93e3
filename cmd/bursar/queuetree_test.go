package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// queueAt is a queue of the cluster yarn:prod, with the queue above it by its path.
func queueAt(path, partition string) *bursarv1.Queue {
	parent := ""
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		parent = path[:i]
	}
	return &bursarv1.Queue{Kind: "yarn", Cluster: "prod", Path: path, Parent: parent, Partition: partition}
}

func namesOf(tree []*branch) []string {
	var names []string
	for _, b := range tree {
		name := b.name()
		if b.GetPartition() != "" {
			name += "@" + b.GetPartition()
		}
		names = append(names, name)
	}
	return names
}

func TestTreeHasQueuesBelowTheOneAbove(t *testing.T) {
	other := queueAt("root", "")
	other.Cluster = "dev"
	queues := []*bursarv1.Queue{
		queueAt("root.a-b", ""), queueAt("root.a.a1", ""), queueAt("root", ""), queueAt("root.a", "gpu"), queueAt("root.a", ""),
		queueAt("root.a.a1", "gpu"), other,
	}
	want := []string{
		"yarn:dev:root",
		"yarn:prod:root", "  a", "  a@gpu", "    a1", "    a1@gpu", "  a-b",
	}
	if diff := cmp.Diff(want, namesOf(treeOf(queues))); diff != "" {
		t.Error(diff)
	}
	slices.Reverse(queues)
	if diff := cmp.Diff(want, namesOf(treeOf(queues))); diff != "" {
		t.Errorf("in another order: %s", diff)
	}
}

func TestTreeOfAPartBeginsWithAWholeAddress(t *testing.T) {
	got := namesOf(treeOf([]*bursarv1.Queue{queueAt("root.a.a1.x", ""), queueAt("root.a.a1", ""), queueAt("root.b", "")}))
	if diff := cmp.Diff([]string{"yarn:prod:root.a.a1", "  x", "yarn:prod:root.b"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestNoteIsSaidOnceForWhatIsBelow(t *testing.T) {
	root, a, b := queueAt("root", ""), queueAt("root.a", ""), queueAt("root.b", "")
	root.Unavailable, a.Unavailable, b.Unavailable = "last read 41s ago", "last read 41s ago", "STOPPED"
	b.Account = &bursarv1.Account{OverLimit: true}
	var notes []string
	for _, branch := range treeOf([]*bursarv1.Queue{root, a, b}) {
		notes = append(notes, branch.note())
	}
	if diff := cmp.Diff([]string{"last read 41s ago", "", "STOPPED, over its limit"}, notes); diff != "" {
		t.Error(diff)
	}
}

// AVAILABLE shows what is left of memory and cpu alone. What masters and applications may have is
// used up before, so it is said.
func TestNoteSaysThatNothingMoreStarts(t *testing.T) {
	account := func(limit, used, others map[string]int64) *bursarv1.Account {
		return &bursarv1.Account{Limit: &bursarv1.Resource{Custom: limit}, Used: &bursarv1.Resource{Custom: used}, UsedByOthers: &bursarv1.Resource{Custom: others}}
	}
	limit := map[string]int64{resource.Applications: 3, resource.AMMemory: 8, "gpu": 1}
	for want, a := range map[string]*bursarv1.Account{
		"":                                       account(limit, map[string]int64{resource.Applications: 2, resource.AMMemory: 7, "gpu": 1}, nil),
		"no more applications now":               account(limit, map[string]int64{resource.Applications: 2}, map[string]int64{resource.Applications: 1}),
		"no more am-memory and applications now": account(limit, map[string]int64{resource.Applications: 3, resource.AMMemory: 8}, nil),
	} {
		if got := applicationsNote(a); got != want {
			t.Errorf("%v: %q, want %q", a, got, want)
		}
	}
	if got := applicationsNote(account(map[string]int64{resource.AMMemory: 0}, nil, nil)); got != "" {
		t.Errorf("the first master is free: %q", got)
	}
}

func TestQuantitiesAreShort(t *testing.T) {
	for want, v := range map[string]resource.Vector{
		"":                             {},
		"64GiB, 16 cpu, 2 yarn.io/gpu": resource.Vector{}.WithMemory(64<<30).WithCPU(16000).With("yarn.io/gpu", 2),
		"117.7MiB, 500m cpu":           resource.Vector{}.WithMemory(123456789).WithCPU(500),
		"0, 0 cpu":                     resource.Vector{}.WithMemory(0).WithCPU(0),
		"3 instances":                  resource.Vector{}.WithInstances(3),
	} {
		if got := quantitiesText(convert.VectorToProto(v)); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	if got := limitText(&bursarv1.Resource{}); got != "unlimited" {
		t.Errorf("a limit of nothing is %q", got)
	}
	if got := limitText(nil); got != "" {
		t.Errorf("no limit told is %q", got)
	}
	half := convert.VectorToProto(resource.Vector{}.WithMemory(1 << 30))
	ours := oursOf(&bursarv1.Account{Used: half, Reserved: convert.VectorToProto(resource.Vector{}.WithMemory(1 << 30).WithCPU(2000))})
	if got := quantitiesText(ours); got != "2GiB, 2 cpu" {
		t.Errorf("ours is %q", got)
	}
}

func TestApplicationsAreTold(t *testing.T) {
	n := func(n int32) *int32 { return &n }
	for want, q := range map[string]*bursarv1.Queue{
		"":              {},
		"3/1/100":       {Applications: n(4), Active: n(3), Pending: n(1), MaxApplications: n(100)},
		"3/1/unlimited": {Active: n(3), Pending: n(1), MaxApplications: n(unlimitedApplications)},
		"3/1":           {Active: n(3), Pending: n(1)},
		"4":             {Applications: n(4)},
		"4/50":          {Applications: n(4), Pending: n(1), MaxApplications: n(50)},
		"?/50":          {MaxApplications: n(50)},
		"0/0/10":        {Active: n(0), Pending: n(0), MaxApplications: n(10)},
	} {
		if got := applicationsText(q); got != want {
			t.Errorf("%v: %q, want %q", q, got, want)
		}
	}
}

func TestSharesHaveTwoDecimals(t *testing.T) {
	for want, share := range map[string]float64{"0.47 %": 0.47250003, "100 %": 100, "10.5 %": 10.5, "0 %": 0} {
		if got := percentText(&share); got != want {
			t.Errorf("%v: %q, want %q", share, got, want)
		}
	}
}

func TestShortTimesKeepTheirSense(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "", 12345 * time.Microsecond: "12ms", 5 * time.Second: "5s", 1254 * time.Millisecond: "1.25s"} {
		if got := secondsText(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestQueueArguments(t *testing.T) {
	for text, want := range map[string]resource.Address{
		"yarn":                 {Kind: "yarn"},
		"yarn:prod":            {Kind: "yarn", Cluster: "prod"},
		"yarn:prod:root.a":     {Kind: "yarn", Cluster: "prod", Path: "root.a"},
		"yarn:prod:root.a@gpu": {Kind: "yarn", Cluster: "prod", Path: "root.a", Partition: "gpu"},
		"yarn::a1":             {Kind: "yarn", Path: "a1"},
	} {
		if got, err := queueArg(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ":", "yarn:", ":prod", "yarn:prod:", "yarn::"} {
		if at, err := queueArg(text); exitCode(err) != exitUsage {
			t.Errorf("%q: %v, %v", text, at, err)
		}
	}
	for _, text := range []string{"yarn", "yarn:", ":prod", "yarn:prod:root", ""} {
		if _, _, err := clusterArg(text); exitCode(err) != exitUsage {
			t.Errorf("cluster %q: %v", text, err)
		}
	}
}

func TestOnlyClusterIsTheDefault(t *testing.T) {
	one := &bursarv1.Provider{Kind: "yarn", Cluster: "one"}
	two := &bursarv1.Provider{Kind: "yarn", Cluster: "two"}
	chosen := &bursarv1.Provider{Kind: "yarn", Cluster: "chosen", Default: true}
	other := &bursarv1.Provider{Kind: "other", Cluster: "one"}
	for _, test := range []struct {
		of   *bursarv1.Provider
		all  []*bursarv1.Provider
		want string
	}{
		{one, []*bursarv1.Provider{one, other}, "yes, the only one"},
		{one, []*bursarv1.Provider{one, two}, ""},
		{one, []*bursarv1.Provider{one, chosen}, ""},
		{chosen, []*bursarv1.Provider{one, chosen}, "yes"},
	} {
		if got := defaultText(test.of, test.all); got != test.want {
			t.Errorf("%s among %d: %q, want %q", providerName(test.of), len(test.all), got, test.want)
		}
	}
}

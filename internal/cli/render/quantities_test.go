package render

import (
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

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
		if got := QuantitiesText(convert.VectorToProto(v)); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	if got := LimitText(&bursarv1.Resource{}); got != "unlimited" {
		t.Errorf("a limit of nothing is %q", got)
	}
	if got := LimitText(nil); got != "" {
		t.Errorf("no limit told is %q", got)
	}
	half := convert.VectorToProto(resource.Vector{}.WithMemory(1 << 30))
	ours := oursOf(&bursarv1.Account{Used: half, Reserved: convert.VectorToProto(resource.Vector{}.WithMemory(1 << 30).WithCPU(2000))})
	if got := QuantitiesText(ours); got != "2GiB, 2 cpu" {
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
		if got := ApplicationsText(q); got != want {
			t.Errorf("%v: %q, want %q", q, got, want)
		}
	}
}

func TestSharesHaveTwoDecimals(t *testing.T) {
	for want, share := range map[string]float64{"0.47 %": 0.47250003, "100 %": 100, "10.5 %": 10.5, "0 %": 0} {
		if got := PercentText(&share); got != want {
			t.Errorf("%v: %q, want %q", share, got, want)
		}
	}
}

package allocations

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestResizeSaysWhatBecomesOfAnEngineThatUsesMore(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	over := func(policy bursarv1.OverUsePolicy, stop time.Duration) *bursarv1.Allocation {
		u := &bursarv1.OverUse{Dimension: "memory", Used: 300 << 20, Entitled: 100 << 20, Policy: policy}
		if stop > 0 {
			u.StopTime = timestamppb.New(now.Add(stop))
		}
		return &bursarv1.Allocation{Id: "a", Entitled: &bursarv1.Resource{MemoryBytes: new(int64(100 << 20))}, UnreclaimableBytes: 300 << 20, OverUse: []*bursarv1.OverUse{u}}
	}
	unknown := over(0, 0)
	unknown.OverUse = nil
	fits := over(bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL, 0)
	fits.Entitled.MemoryBytes = new(int64(400 << 20))
	const uses = "it uses 300MiB of memory, and is entitled to 100MiB now: "
	for name, test := range map[string]struct {
		a    *bursarv1.Allocation
		want string
	}{
		"observe": {over(bursarv1.OverUsePolicy_OVER_USE_POLICY_OBSERVE, 0), uses + "it goes on, and this is shown (policy observe)"},
		"warn":    {over(bursarv1.OverUsePolicy_OVER_USE_POLICY_WARN, 0), uses + "it goes on, and this is shown and logged (policy warn)"},
		"limit": {
			over(bursarv1.OverUsePolicy_OVER_USE_POLICY_LIMIT, 0),
			uses + "the kernel takes back what it can; the lower limit holds as soon as the engine uses less than that, and kills what needs more from then on (policy limit)",
		},
		"kill":              {over(bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL, 30*time.Second), uses + "it is stopped in 30s if this goes on (policy kill)"},
		"an older agent":    {unknown, uses + "its host may tolerate, show, limit or stop that; see bursar allocations a"},
		"a larger one fits": {fits, ""},
		"nothing measured":  {&bursarv1.Allocation{}, ""},
	} {
		if got := exceededText(test.a, now); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

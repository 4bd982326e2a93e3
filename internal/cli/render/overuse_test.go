package render

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const gibibyte = int64(1) << 30

// inOverUse is an engine that has used 5 GiB of 4 GiB for 18 s.
func inOverUse(now time.Time, policy bursarv1.OverUsePolicy) *bursarv1.Allocation {
	u := &bursarv1.OverUse{
		Dimension: "memory", Used: 5 * gibibyte, Entitled: 4 * gibibyte, Since: timestamppb.New(now.Add(-18 * time.Second)), Policy: policy,
	}
	if policy == bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL {
		u.StopTime = timestamppb.New(now.Add(12 * time.Second))
	}
	return &bursarv1.Allocation{Id: "a", State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, OverUse: []*bursarv1.OverUse{u}}
}

func TestOverUseIsSaidInWords(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name        string
		policy      bursarv1.OverUsePolicy
		change      func(*bursarv1.Allocation)
		short, long string
	}{
		{"observe", bursarv1.OverUsePolicy_OVER_USE_POLICY_OBSERVE, nil, "(observe)", "; policy observe: it goes on"},
		{"warn", bursarv1.OverUsePolicy_OVER_USE_POLICY_WARN, nil, "(warn)", "; policy warn: it goes on, and its agent's log says so"},
		{"limit", bursarv1.OverUsePolicy_OVER_USE_POLICY_LIMIT, func(a *bursarv1.Allocation) { a.MemoryLimitBytes = 6 << 30 }, "(limit)", "; policy limit: the kernel holds it at 6GiB"},
		{"limit that does not hold", bursarv1.OverUsePolicy_OVER_USE_POLICY_LIMIT, nil, "(limit)", "; policy limit: no limit is known to hold it; its host tries again"},
		{
			"limit for later memory", bursarv1.OverUsePolicy_OVER_USE_POLICY_LIMIT, func(a *bursarv1.Allocation) { a.MemoryLimitBytes = 4 << 30 }, "(limit)",
			"; policy limit: the kernel's limit of 4GiB does not cover what it had touched before it was confirmed",
		},
		{"kill", bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL, nil, "(kill in 12s)", " (in 12s) if this goes on"},
		{"due", bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL, func(a *bursarv1.Allocation) {
			a.OverUse[0].StopTime = timestamppb.New(now.Add(-time.Second))
		}, "(kill now)", "; policy kill: it is due to be stopped"},
		{"stopping", bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL, func(a *bursarv1.Allocation) { a.Stopping = true }, "(kill)", "; policy kill: it is being stopped"},
		{"never killed for cpu", bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL, func(a *bursarv1.Allocation) {
			a.OverUse[0].StopTime = nil
		}, "(kill)", "; policy kill: it is never stopped for this"},
		{"ended", bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL, func(a *bursarv1.Allocation) { a.EndTime = timestamppb.New(now) }, "(kill)", "; policy kill"},
	} {
		a := inOverUse(now, c.policy)
		if c.change != nil {
			c.change(a)
		}
		if got, want := OverUseText(a, now), "memory 5GiB of 4GiB "+c.short; got != want {
			t.Errorf("%s: %q, want %q", c.name, got, want)
		}
		facts := overUseFacts(a, now)
		if len(facts) != 2 || !strings.HasPrefix(facts[1], "used 5GiB of memory when it was noticed, was entitled to 4GiB; since ") ||
			!strings.Contains(facts[1], "(18s ago)") || !strings.HasSuffix(facts[1], c.long) {
			t.Errorf("%s: %q, want it to end with %q", c.name, facts, c.long)
		}
	}
}

func TestWatchTellsOverUseFromItsEnd(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	known := make(OverUsers)
	over, within := inOverUse(now, bursarv1.OverUsePolicy_OVER_USE_POLICY_WARN), &bursarv1.Allocation{Id: "a"}
	ended := inOverUse(now, bursarv1.OverUsePolicy_OVER_USE_POLICY_WARN)
	ended.EndTime = timestamppb.New(now)
	for i, step := range []struct {
		a    *bursarv1.Allocation
		when time.Time
		what string
	}{
		{within, time.Time{}, ""},
		{over, now.Add(-18 * time.Second), "over-use: memory 5GiB of 4GiB (warn)"},
		{over, time.Time{}, "over-use: memory 5GiB of 4GiB (warn)"}, // changed in another way
		{within, now, "keeps to what it is entitled to again"},
		{within, time.Time{}, ""},
		{over, now.Add(-18 * time.Second), "over-use: memory 5GiB of 4GiB (warn)"},
		{ended, time.Time{}, ""},
	} {
		if when, what := known.Update(step.a, now); !when.Equal(step.when) || what != step.what {
			t.Errorf("step %d: %v %q, want %v %q", i, when, what, step.when, step.what)
		}
	}
	if len(known) > 0 {
		t.Errorf("of those that have ended it remembers %v", known)
	}
}

func TestHowAnEngineEndedIsSaidOnce(t *testing.T) {
	for _, c := range []struct {
		status *bursarv1.ExitStatus
		reason string
		want   string
	}{
		{nil, "", ""},
		{&bursarv1.ExitStatus{Signal: 9}, "", "signal 9"},
		{&bursarv1.ExitStatus{Code: new(int32(3))}, "", "code 3"},
		{&bursarv1.ExitStatus{Signal: 9, OutOfMemory: true}, "process ended", "signal 9, killed for lack of memory"},
		{&bursarv1.ExitStatus{Signal: 9, OutOfMemory: true}, "killed for lack of memory: the machine's", "signal 9"},
		{&bursarv1.ExitStatus{Code: new(int32(1)), OutOfMemory: true}, "", "code 1, a process of it was killed for lack of memory"},
		{&bursarv1.ExitStatus{OutOfMemory: true}, "", "killed for lack of memory"},
		{&bursarv1.ExitStatus{Code: new(int32(0))}, "exit code 0", ""},
		{&bursarv1.ExitStatus{Code: new(int32(1))}, "exit code 1, after the kernel had killed 2 of its processes", ""},
		{&bursarv1.ExitStatus{Code: new(int32(1))}, "exit code 12", "code 1"},
		{&bursarv1.ExitStatus{Code: new(int32(1))}, "process ended", "code 1"},
		{&bursarv1.ExitStatus{Signal: 9}, "killed by SIGKILL", ""},
		{&bursarv1.ExitStatus{Signal: 34}, "killed by signal 34", ""},
		{&bursarv1.ExitStatus{Signal: 3}, "killed by signal 34", "signal 3"},
		{&bursarv1.ExitStatus{Signal: 15}, "killed by SIGKILL", "signal 15"},
	} {
		if got := ExitNote(&bursarv1.Allocation{ExitStatus: c.status, Reason: c.reason}); got != c.want {
			t.Errorf("%v after %q: %q, want %q", c.status, c.reason, got, c.want)
		}
	}
}

func TestDisksAreReadable(t *testing.T) {
	for _, c := range []struct {
		disk *bursarv1.DiskSample
		want string
	}{
		{&bursarv1.DiskSample{TotalBytes: 100 * gibibyte, FreeBytes: 12 * gibibyte}, "12GiB free of 100GiB"},
		{&bursarv1.DiskSample{TotalBytes: 100 * gibibyte, FreeBytes: gibibyte, TotalInodes: 200, FreeInodes: 3, Short: true}, "1GiB free of 100GiB, 1 % of its inodes, too little"},
		{&bursarv1.DiskSample{Short: true}, "not known, too little"},
		{&bursarv1.DiskSample{TotalBytes: 1, TotalInodes: 1<<63 - 1, FreeInodes: 1<<63 - 1}, "0 free of 1B, 100 % of its inodes"},
	} {
		if got := DiskText(c.disk); got != c.want {
			t.Errorf("%v: %q, want %q", c.disk, got, c.want)
		}
	}
}

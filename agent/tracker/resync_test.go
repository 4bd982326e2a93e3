package tracker_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A new leader sets the time for the host's report. Until then the report is not urgent. An older
// coordinator sets no time, and a faulty one cannot delay the report until the host counts as lost.
func TestANewLeaderSaysWhenToComeBack(t *testing.T) {
	for _, test := range []struct {
		told *durationpb.Duration
		want time.Duration
	}{
		{nil, 0},
		{durationpb.New(-time.Second), 0},
		{durationpb.New(17 * time.Second), 17 * time.Second},
		{durationpb.New(time.Hour), 2 * time.Minute},
		{&durationpb.Duration{Seconds: 1 << 40}, 2 * time.Minute},
	} {
		k := registered(t)
		answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 6, Action: resync, ResyncAfter: test.told})
		if got := k.ResyncAfter(); got != test.want {
			t.Errorf("told %v, it waits %s; want %s", test.told, got, test.want)
		}
		if urgent := k.Urgent(); urgent != (test.want == 0) || !k.NeedsRegister() {
			t.Errorf("told %v, urgent is %v, needs to register %v", test.told, urgent, k.NeedsRegister())
		}
		register(t, k, 6)
		if k.ResyncAfter() != 0 || !k.Urgent() {
			t.Errorf("told %v, registered: it waits %s, urgent is %v; want a full report at once", test.told, k.ResyncAfter(), k.Urgent())
		}
	}
}

// What the coordinator should hear at once does not wait.
func TestAnEndIsUrgentAlsoBeforeAHostIsToComeBack(t *testing.T) {
	k := registered(t, engine("a", 5, 100, 7))
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 6, Action: resync, ResyncAfter: durationpb.New(17 * time.Second)})
	k.Measure(start, ended("a", 7))
	if !k.Urgent() {
		t.Error("the end of an engine is not urgent")
	}
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 6, Action: resync, ResyncAfter: durationpb.New(17 * time.Second)})
	k.Resync()
	if !k.Urgent() || k.ResyncAfter() != 0 {
		t.Error("a host that is not known waits")
	}
}

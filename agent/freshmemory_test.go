package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// roomy is a machine with a GiB available. hangs makes each measurement after the first hang until
// its context ends.
type roomy struct {
	still

	samples int
	hangs   bool
}

func (r *roomy) Sample(ctx context.Context) host.Sample {
	r.samples++
	if r.hangs && r.samples > 1 {
		<-ctx.Done()
	}
	available := int64(1 << 30)
	return host.Sample{Time: time.Now(), MemoryAvailableBytes: &available}
}

// An agent that was stopped for some seconds has a sample that old when it goes on. Its measuring
// loop may not have run yet when the first grants reach it.
func TestAGrantIsDecidedOnAFreshSampleAfterAPause(t *testing.T) {
	memory := int64(1 << 20)
	grant := &bursarv1.Allocation{
		Id: "a1", HostId: "h1", Revision: 9, State: bursarv1.AllocationState_ALLOCATION_STATE_RESERVED,
		Entitled: &bursarv1.Resource{MemoryBytes: &memory},
	}
	for name, c := range map[string]struct {
		hangs bool
		want  tracker.Verdict
	}{
		"measured again":        {false, tracker.Held},
		"the measurement hangs": {true, tracker.Vetoed},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := statefile.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = dir.Close() }()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				a, err := New(Config{HostID: "h1", Tick: time.Minute}, Deps{Allocations: &patient{}, Hosts: &heartbeatServer{}, Meter: &roomy{hangs: c.hangs}})
				if err != nil {
					t.Fatal(err)
				}
				a.state.Open(dir, "boot-1", 1)
				a.state.Begin(tracker.New(time.Now(), tracker.Host{ID: "h1"}, tracker.Snapshot{}))
				a.measure(ctx)
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = a.measureLoop(ctx)
				}()
				time.Sleep(45 * time.Second) // a sample counts for 30 s at most
				began := time.Now()
				a.readFreshMemory(ctx)
				var verdict tracker.Verdict
				a.state.Locked(func(t *tracker.Tracker) { verdict = t.Observe(time.Now(), grant, 0) })
				if verdict != c.want {
					t.Errorf("verdict %v, want %v", verdict, c.want)
				}
				if took := time.Since(began); took > measureTimeout {
					t.Errorf("the decision took %v, want at most %v", took, measureTimeout)
				}
				cancel()
				<-done
			})
		})
	}
}

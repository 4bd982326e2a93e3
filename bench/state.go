package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// stateSuite measures the agent's storing of each step.
func stateSuite(_ context.Context, r *run) error {
	w, err := readWorkload("state")
	if err != nil {
		return err
	}
	before := 0.0
	for _, engines := range w.Depths {
		b, err := newStateBench(w, r, engines)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("state/%d", engines)
		cpu, wall, err := b.measure(r.size(w.Rounds), b.storeChange)
		if err == nil {
			r.line(name+"-cpu", cpu, "µs", ratioTo(cpu, before))
			r.line(name+"-wall", wall, "µs", 0)
			before = cpu
			var whole float64
			whole, _, err = b.measure(r.size(w.Batch), b.storeAll)
			r.line(name+"-whole-cpu", whole, "µs", whole/cpu)
		}
		if err := errors.Join(err, b.dir.Close(), os.RemoveAll(b.path)); err != nil {
			return err
		}
	}
	return nil
}

func ratioTo(value, before float64) float64 {
	if before == 0 {
		return 0
	}
	return value / before
}

// stateBench is a tracker with engines, and its state directory.
type stateBench struct {
	path     string
	dir      *statefile.Dir
	tracker  *tracker.Tracker
	request  *bursarv1.Resource
	revision uint64
}

func newStateBench(w *workload, r *run, engines int) (*stateBench, error) {
	request, err := w.request()
	if err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp("/dev/shm", "bursar-bench") // in memory
	if err != nil {
		if path, err = os.MkdirTemp(r.dir, "state"); err != nil {
			return nil, err //nolint:wrapcheck // names the path
		}
		r.note("state", "no /dev/shm: a disk is measured, too")
	}
	b := &stateBench{path: path, request: convert.ResourceToProto(request)}
	if b.dir, err = statefile.Open(path); err != nil {
		return nil, err //nolint:wrapcheck // names the path
	}
	available := int64(1 << 50)
	b.tracker = tracker.New(time.Now(), tracker.Host{ID: "bench", BootID: "boot", Incarnation: 1}, tracker.Snapshot{})
	b.tracker.Measure(time.Now(), tracker.Measurement{Sample: &bursarv1.HostSample{MemoryAvailableBytes: &available}})
	for range engines {
		b.confirmed()
	}
	return b, b.storeChange()
}

// confirmed makes one more engine.
func (b *stateBench) confirmed() *bursarv1.Allocation {
	b.revision++
	reserved := &bursarv1.Allocation{
		Id: fmt.Sprintf("01j9zq4w6v8t2m5n7p%08d", b.revision), RequestId: fmt.Sprintf("agent-%026d", b.revision), HostId: "bench", Revision: b.revision,
		Labels:    map[string]string{"user": "bench", "creator": "bench", "engineType": "spark-3.3"},
		Requested: b.request, Entitled: b.request, State: bursarv1.AllocationState_ALLOCATION_STATE_RESERVED,
	}
	b.tracker.Observe(time.Now(), reserved, 1)
	b.revision++
	active := b.as(reserved, bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE)
	active.Process = &bursarv1.Process{Pid: int32(b.revision), StartTime: b.revision, BootId: "boot"} //nolint:gosec // some thousands
	b.tracker.Show(active.GetId(), active.GetProcess())
	b.tracker.Observe(time.Now(), active, 1)
	return active
}

func (b *stateBench) as(a *bursarv1.Allocation, state bursarv1.AllocationState) *bursarv1.Allocation {
	return &bursarv1.Allocation{
		Id: a.GetId(), RequestId: a.GetRequestId(), HostId: a.GetHostId(), Revision: b.revision, Labels: a.GetLabels(),
		Requested: a.GetRequested(), Entitled: a.GetEntitled(), State: state, Process: a.GetProcess(),
	}
}

// measure returns the CPU time and the duration of a step, in microseconds.
func (b *stateBench) measure(steps int, store func() error) (cpu, wall float64, err error) {
	began := time.Now()
	before, err := cpuTime()
	if err != nil {
		return 0, 0, err
	}
	for range steps {
		engine := b.confirmed()
		if err := store(); err != nil {
			return 0, 0, err
		}
		b.revision++
		b.tracker.Observe(time.Now(), b.as(engine, bursarv1.AllocationState_ALLOCATION_STATE_RELEASED), 1)
		if err := store(); err != nil {
			return 0, 0, err
		}
	}
	after, err := cpuTime()
	each := float64(steps) * float64(time.Microsecond)
	return float64(after-before) / each, float64(time.Since(began)) / each, err
}

// storeChange stores like an agent.
func (b *stateBench) storeChange() error {
	if change, enough := b.tracker.Change(); enough {
		if err := b.dir.Append(change); !errors.Is(err, statefile.ErrFull) {
			return err //nolint:wrapcheck // names the path
		}
		b.tracker.NotSaved()
	}
	return b.dir.Begin(b.state()) //nolint:wrapcheck // names the path
}

// storeAll stores like older agents.
func (b *stateBench) storeAll() error { return b.dir.Save(b.state()) } //nolint:wrapcheck // names the path

func (b *stateBench) state() statefile.State {
	return statefile.State{HostID: "bench", Incarnation: 1, SavedAt: time.Now(), Snapshot: b.tracker.Snapshot()}
}

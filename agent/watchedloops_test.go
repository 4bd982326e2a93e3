package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// hanging is a machine, a coordinator and a disk that hang when they are told to, without any
// regard for contexts, until the test ends.
type hanging struct {
	still
	*heartbeatServer

	what chan string // what is to hang; closed: nothing any more
	over chan struct{}
	slow time.Duration
	lost map[string]string // what of the machine cannot be measured
	log  *slog.Logger
}

func (h *hanging) at(place string) {
	time.Sleep(h.slow)
	select {
	case what := <-h.what:
		if what == place {
			<-h.over
			return
		}
		h.what <- what
	default:
	}
}

func (h *hanging) Sample(ctx context.Context) host.Sample {
	h.at("measuring")
	sample := h.still.Sample(ctx)
	if sample.Degraded = h.lost; h.lost == nil {
		free := int64(1 << 30)
		sample.MemoryAvailableBytes = &free
	}
	return sample
}

func (h *hanging) Sync(ctx context.Context, q *bursarv1.SyncRequest) (*bursarv1.SyncResponse, error) {
	h.at("heartbeat")
	return h.heartbeatServer.Sync(ctx, q)
}

func (h *hanging) Begin(statefile.State) error {
	h.at("writing")
	return nil
}

func (h *hanging) Load() (statefile.State, error)     { return statefile.State{}, statefile.ErrNone }
func (h *hanging) Append(tracker.Change) error        { return statefile.ErrFull }
func (h *hanging) Save(statefile.State) error         { return nil }
func (h *hanging) SetAside(time.Time) (string, error) { return "", nil }
func (h *hanging) Token() ([]byte, error)             { return nil, nil }
func (h *hanging) SetToken([]byte) error              { return nil }
func (h *hanging) Intact() bool                       { return true }
func (h *hanging) File() string                       { return "nowhere" }
func (h *hanging) Close() error                       { return nil }

// runningAgent runs the loops of an agent in a bubble, until f returns.
func runningAgent(t *testing.T, h *hanging, f func(a *Agent)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h.what, h.over = make(chan string, 1), make(chan struct{})
		a, err := New(Config{HostID: "h1", Tick: 5 * time.Second}, Deps{Allocations: &patient{}, Hosts: h, Meter: h, Logger: h.log})
		if err != nil {
			t.Fatal(err)
		}
		a.state.Open(h, "boot-1", 1)
		a.state.Begin(tracker.New(time.Now(), tracker.Host{ID: "h1", BootID: "boot-1", Incarnation: 1}, tracker.Snapshot{}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 3)
		for _, loop := range []func(context.Context) error{a.measureLoop, a.reports.Loop, func(ctx context.Context) error { return a.state.SaveLoop(ctx, a.loops.save.Do) }} {
			go func() { ended <- loop(ctx) }()
		}
		f(a)
		close(h.over)
		cancel()
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestLoopThatHangsIsNamed(t *testing.T) {
	for what, want := range map[string]struct {
		text   string
		within time.Duration
	}{
		"measuring": {"measuring the machine takes ", longestMeasure + 10*time.Second},
		"heartbeat": {"a heartbeat to the coordinator takes ", longestSync + 10*time.Second},
		// it has to have something to write
		"writing": {"writing the state file takes ", longestSave + 20*time.Minute},
	} {
		t.Run(what, func(t *testing.T) {
			h := &hanging{heartbeatServer: &heartbeatServer{interval: 5 * time.Second}}
			runningAgent(t, h, func(a *Agent) {
				time.Sleep(20 * time.Minute)
				if err := a.Live(time.Now()); err != nil {
					t.Fatalf("nothing hangs, but %v", err)
				}
				h.what <- what
				began := time.Now()
				var err error
				for err == nil && time.Since(began) < want.within {
					time.Sleep(time.Second)
					a.state.Locked(func(t *tracker.Tracker) { t.NotSaved() })
					err = a.Live(time.Now())
				}
				if err == nil || !strings.HasPrefix(err.Error(), want.text) {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			})
		})
	}
}

func TestCoordinatorThatIsAwayIsNoHang(t *testing.T) {
	for name, h := range map[string]*hanging{
		"refuses":                     {heartbeatServer: &heartbeatServer{interval: 5 * time.Second, err: errors.New("connection refused")}},
		"does not answer":             {heartbeatServer: &heartbeatServer{interval: 5 * time.Second, hang: true}},
		"a slow disk, a slow machine": {heartbeatServer: &heartbeatServer{interval: 5 * time.Second}, slow: 9 * time.Second},
		"is in no hurry":              {heartbeatServer: &heartbeatServer{interval: 5 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			runningAgent(t, h, func(a *Agent) {
				for began := time.Now(); time.Since(began) < time.Hour; {
					time.Sleep(time.Second)
					if err := a.Live(time.Now()); err != nil {
						t.Fatalf("after %v: %v", time.Since(began), err)
					}
				}
			})
		})
	}
}

func TestStatusSaysWhatMatters(t *testing.T) {
	p := &heartbeatServer{interval: 5 * time.Second, err: errors.New("away")}
	runningAgent(t, &hanging{heartbeatServer: p}, func(a *Agent) {
		time.Sleep(time.Minute)
		if got := a.Status(); got != "no coordinator has answered yet: requests wait; engines: 0" {
			t.Error(got)
		}
		p.fail(nil)
		time.Sleep(time.Minute)
		if got := a.Status(); got != "a coordinator answers; engines: 0" {
			t.Error(got)
		}
		p.fail(errors.New("away"))
		time.Sleep(time.Minute)
		if got := a.Status(); !strings.HasPrefix(got, "no coordinator answers since 2000-01-01T00:0") {
			t.Error(got)
		}
	})
	begun, err := New(Config{HostID: "h1"}, Deps{Allocations: &patient{}, Hosts: p, Meter: still{}})
	if err != nil {
		t.Fatal(err)
	}
	if got := begun.Status(); got != "" {
		t.Error(got)
	}
}

// TestWhatCannotBeMeasuredIsTold: a host that takes nothing for want of measurements says so,
// once, and why.
func TestWhatCannotBeMeasuredIsTold(t *testing.T) {
	var log bytes.Buffer
	h := &hanging{
		heartbeatServer: &heartbeatServer{interval: 5 * time.Second}, lost: map[string]string{host.SourceMemoryCgroup: "no such cgroup"},
		log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	runningAgent(t, h, func(a *Agent) {
		time.Sleep(time.Minute)
		if got, want := a.Status(), "a coordinator answers; engines: 0; no new engines: memory is not measured"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	if told := strings.Count(log.String(), `source=memory.cgroup error="no such cgroup"`); told != 1 {
		t.Errorf("told %d times, want once:\n%s", told, log.String())
	}
}

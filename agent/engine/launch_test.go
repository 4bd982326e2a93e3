package engine

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/bursar/bursar/agent/contain"
	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/look"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/ready"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/hold"
	"github.com/bursar/bursar/internal/osuser"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
	"github.com/bursar/bursar/test/proc"
)

func TestMain(m *testing.M) {
	hold.Wait()                                       // by then it goes by the name of an engine
	if filepath.Base(os.Args[0]) == "bursar-keeper" { // this binary is the keeper, too
		if look.Asked(os.Args) {
			os.Exit(look.Main())
		}
		os.Exit(keeper.Main())
	}
	goleak.VerifyTestMain(m)
}

// confirms is a coordinator that asks a test what it answers to Confirm.
type confirms struct {
	confirm  func(request *bursarv1.ConfirmRequest) (*bursarv1.Allocation, error)
	keeper   int32 // of the engine that was to be confirmed
	released []*bursarv1.ReleaseRequest
}

func (c *confirms) Confirm(_ context.Context, request *bursarv1.ConfirmRequest) (*bursarv1.Allocation, error) {
	c.keeper = request.GetProcess().GetReaperPid()
	return c.confirm(request)
}

func (c *confirms) Release(_ context.Context, request *bursarv1.ReleaseRequest) error {
	c.released = append(c.released, request)
	return nil
}

// launching are the engines of this machine, which are launched as this user, without cgroups.
func launching(t *testing.T) (s *Engines, direct *launch.Direct) {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "bursar-keeper")
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	meter, err := host.NewMeter(host.Options{SafetyBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	direct = &launch.Direct{}
	cgroups, err := contain.New(contain.Options{
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Proc: "/proc", Direct: direct,
		Settings: func() contain.Settings { return contain.Settings{Way: contain.None} },
		Locked:   func(f func(*tracker.Tracker)) { s.state.Locked(f) }, ScheduleSave: func() {},
		Launching: func(id string) bool { return s.Launching(id) }, Stopped: func(id string) bool { return s.Stopped(id) },
		Identify: meter.Identify,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cgroups.Close() })
	s = looked(t, Options{
		Meter: meter, Opener: process.NewOpener(meter, "/proc"), Cgroups: cgroups, Keeper: program,
		Records: launch.Records(filepath.Join(dir, "engines")), LogDir: filepath.Join(dir, "logs"), Sight: ready.Own("/proc", program, nil), Proc: "/proc",
	}, tracker.Snapshot{BootID: "boot-1"})
	return s, direct
}

// launched launches a shell in the reservation a1.
func launched(t *testing.T, s *Engines, direct *launch.Direct, c *confirms, script string) (*bursarv1.Allocation, error) {
	t.Helper()
	user := osuser.Self()
	user.Name, user.Home = "me", "/"
	active, _, err := s.Launch(t.Context(), Launch{
		Request:    &bursarv1.LaunchRequest{Id: "a1", Command: []string{"sh", "-c", script}, WorkingDirectory: "/"},
		Allocation: &bursarv1.Allocation{Id: "a1", HostId: "h1", State: bursarv1.AllocationState_ALLOCATION_STATE_RESERVED},
		User:       user, Caller: "me@h1", Coordinator: c,
	})
	proc.Until(t, 20*time.Second, 5*time.Millisecond, "the keeper has ended", func() bool {
		direct.Reap()
		_, err := s.meter.Identify(c.keeper)
		return errors.Is(err, host.ErrNoProcess)
	})
	return active, err
}

// The program is executed only once the coordinator has confirmed the engine, and the agent has
// stored that it may have run: until then the list of keepers that have to end has its own.
func TestNothingOfAnEngineRunsBeforeItIsConfirmed(t *testing.T) {
	s, direct := launching(t)
	ran := filepath.Join(t.TempDir(), "ran")
	c := &confirms{confirm: func(request *bursarv1.ConfirmRequest) (*bursarv1.Allocation, error) {
		if _, err := os.Stat(ran); err == nil {
			t.Error("it ran before it was confirmed")
		}
		list, err := s.records.Unconfirmed()
		if err != nil || len(list) != 1 || list[0].ID != "a1" {
			t.Errorf("the keeper is not noted: %v, %v", list, err)
		}
		active := anEngine("a1", 7)
		active.Process = request.GetProcess()
		s.state.Locked(func(k *tracker.Tracker) { k.Observe(time.Now(), active, 0) })
		return active, nil
	}}
	active, err := launched(t, s, direct, c, "echo >"+ran)
	if err != nil || !active.GetProcess().GetLaunched() || len(c.released) != 0 {
		t.Errorf("%v, %v, %v", active, err, c.released)
	}
	if _, err := os.Stat(ran); err != nil {
		t.Error(err)
	}
	if list, err := s.records.Unconfirmed(); err != nil || len(list) != 0 {
		t.Errorf("its keeper is still to be ended: %v, %v", list, err)
	}
}

// An engine that a coordinator refuses, or of which it cannot be stored that it may have run, never
// does. Its keeper ends.
func TestAnEngineThatMayNotBeginNeverRuns(t *testing.T) {
	for name, confirm := range map[string]func(s *Engines) error{
		"it is refused": func(*Engines) error {
			return connect.NewError(connect.CodeFailedPrecondition, errors.New("its reservation has expired"))
		},
		"it cannot be stored": func(s *Engines) error { // a folder is in the place of the list
			list := filepath.Join(string(s.records), "unconfirmed.json")
			return errors.Join(os.RemoveAll(list), os.MkdirAll(filepath.Join(list, "x"), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, direct := launching(t)
			ran := filepath.Join(t.TempDir(), "ran")
			c := &confirms{confirm: func(request *bursarv1.ConfirmRequest) (*bursarv1.Allocation, error) {
				return &bursarv1.Allocation{Id: "a1", Process: request.GetProcess()}, confirm(s)
			}}
			if _, err := launched(t, s, direct, c, "echo >"+ran); err == nil {
				t.Error("it is said to be launched")
			} else if !strings.Contains(err.Error(), "expired") && !strings.Contains(err.Error(), "could not store that the engine may go on") {
				t.Error(err)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("it ran")
			}
		})
	}
}

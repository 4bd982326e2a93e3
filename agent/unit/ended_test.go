package unit

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// killed is a systemd whose services end in a given way as soon as they start.
type killed struct {
	*played

	refusal error
	job     string
	unit    map[string]any
}

func (k *killed) StartTransientUnitContext(_ context.Context, name, _ string, _ []systemd.Property, done chan<- string) (int, error) {
	if k.refusal != nil {
		return 0, k.refusal
	}
	k.units[name] = k.unit
	done <- k.job
	return 1, nil
}

// The user can kill a keeper at once, or make it hang. That must not move an engine to the agent's
// own cgroup, the place for engines that systemd could not start.
func TestNoUserKeepsAnEngineOutOfItsUnit(t *testing.T) {
	for name, test := range map[string]struct {
		refusal error
		job     string
		unit    map[string]any
	}{
		"killed before the exec": {job: "failed", unit: map[string]any{"ActiveState": "failed", "Result": "signal"}},
		"killed after the exec":  {job: "done", unit: map[string]any{"ActiveState": "failed", "Result": "signal", "MainPID": uint32(0)}},
		"ended":                  {job: "done", unit: map[string]any{"ActiveState": "inactive", "Result": "success", "MainPID": uint32(0)}},
		"an earlier one is there": {
			refusal: *dbus.NewError("org.freedesktop.systemd1.UnitExists", []any{"Unit bursar-engine-e1.service already exists."}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &played{}
				u := open(t, p)
				u.conn = &killed{p, test.refusal, test.job, test.unit}
				_, err := u.Start(t.Context(), Service{ID: "e1", Command: []string{"/bin/true"}, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
				if err == nil || errors.Is(err, ErrNotStarted) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// ending is a systemd that still has the unit at its next start.
type ending struct {
	*played

	unit  map[string]any // as it still is
	times int            // how often it refuses
	reset error          // what it says if it is asked to forget that the unit has failed
}

func (e *ending) ResetFailedUnitContext(ctx context.Context, name string) error {
	return errors.Join(e.reset, e.played.ResetFailedUnitContext(ctx, name))
}

func (e *ending) StartTransientUnitContext(ctx context.Context, name, mode string, properties []systemd.Property, done chan<- string) (int, error) {
	if e.times--; e.times >= 0 {
		e.units[name] = e.unit
		return 0, *dbus.NewError(unitExists, []any{"Unit " + name + " was already loaded or has a fragment file."})
	}
	return e.played.StartTransientUnitContext(ctx, name, mode, properties, done)
}

func TestAUnitThatIsJustEndingIsStartedAnew(t *testing.T) {
	running := map[string]any{"ActiveState": "active", "MainPID": uint32(7)}
	gone := *dbus.NewError(noSuchUnit, []any{"Unit bursar-engine-e1.service not loaded."})
	for name, test := range map[string]struct {
		unit  map[string]any
		stays bool
		reset error
	}{
		"inactive":                     {unit: map[string]any{"ActiveState": "inactive"}},
		"failed":                       {unit: map[string]any{"ActiveState": "failed", "Result": "exit-code"}},
		"failed, and gone by then":     {unit: map[string]any{"ActiveState": "failed", "Result": "exit-code"}, reset: gone},
		"deactivating":                 {unit: map[string]any{"ActiveState": "deactivating", "MainPID": uint32(0)}},
		"its keeper has not ended yet": {unit: running},
		"its user makes it stay":       {unit: running, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &played{}
				u := open(t, p)
				times := 3
				if test.stays {
					times = 1000
				}
				u.conn = &ending{p, test.unit, times, test.reset}
				began := time.Now()
				_, err := u.Start(t.Context(), Service{ID: "e1", Command: []string{"/bin/true"}, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
				if took := time.Since(began); (err != nil) != test.stays || errors.Is(err, ErrNotStarted) || took > goneRounds*goneInterval {
					t.Errorf("%v after %s", err, took)
				}
			})
		})
	}
}

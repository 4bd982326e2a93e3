package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

func applications(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint("application_", i))
	}
	return ids
}

// An engine may have so many applications as a message may name, in one Confirm or in several.
func TestAnEngineHasAtMost64Applications(t *testing.T) {
	confirm := func(l *ledger.Ledger, id ledger.ID, applications []string) error {
		_, err := l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: id, ApplicationIDs: applications})
		return err
	}
	l := ready(t)
	all, few, many := reserve(t, l, "alice"), reserve(t, l, "alice"), reserve(t, l, "alice")
	must(t, confirm(l, all.ID, applications(64)))
	must(t, confirm(l, all.ID, applications(64))) // they are the same
	must(t, confirm(l, few.ID, applications(10)))
	must(t, confirm(l, few.ID, applications(64)))
	for name, err := range map[string]error{
		"in the first":  confirm(l, many.ID, applications(65)),
		"one by one":    confirm(l, all.ID, []string{"another"}),
		"in the second": confirm(l, few.ID, []string{"another"}),
	} {
		if wrong, refused := errors.AsType[*ledger.FieldError](err); !refused || wrong.Field != "application_ids" {
			t.Errorf("65 of them, %s: %v", name, err)
		}
	}
	if a, _ := l.Get(all.ID); !slices.Equal(a.ApplicationIDs, applications(64)) {
		t.Errorf("it has %d; want 64", len(a.ApplicationIDs))
	}
}

// Confirm may be repeated for the process that was confirmed. A process is its pid and its start
// time; a caller that does not know the start time names the pid.
func TestAnotherProcessIsNotConfirmed(t *testing.T) {
	l := ready(t)
	a := reserve(t, l, "alice")
	confirm := func(pid int32, started int64) error {
		_, err := l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: a.ID, Process: ledger.Process{PID: pid, StartTime: uint64(started)}})
		return err
	}
	must(t, confirm(100, 7))
	must(t, confirm(100, 7))
	must(t, confirm(100, 0))
	for _, other := range [][2]int64{{100, 8}, {100, 1}, {101, 7}, {101, 0}, {0, 0}} {
		if _, refused := errors.AsType[*ledger.StateError](confirm(int32(other[0]), other[1])); !refused {
			t.Errorf("pid %d that started at %d is confirmed", other[0], other[1])
		}
	}
}

// An external part may be confirmed as it was reserved, and not larger.
func TestAPartIsConfirmedUpToWhatIsReserved(t *testing.T) {
	for memory, want := range map[int64]bool{1: true, 2: true, 3: false} {
		l := ready(t)
		must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: yarnProd}))
		part := resource.External{Address: resource.Address{Kind: "yarn", Cluster: "prod", Path: "root"}, Vector: resource.Vector{}.WithMemory(2)}
		must(t, l.ReportCluster(start, ledger.ClusterReport{
			ClusterName: yarnProd, Asked: start, GoodFor: time.Hour, Queues: []ledger.QueueReport{{Path: "root", Limit: resource.Vector{}.WithMemory(8)}},
		}))
		a, err := ask(l, start, "alice", 1, func(c *ledger.AllocateCommand) { c.Resource.External = []resource.External{part} })
		must(t, err)
		part.Vector = resource.Vector{}.WithMemory(memory)
		entitled := resource.NewResource(resource.Vector{}, part)
		_, err = l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: a.ID, Entitled: &entitled})
		if (err == nil) != want {
			t.Errorf("%d of 2 reserved: %v", memory, err)
		}
	}
}

// A renewal that is not durable yet has taken the old end away, too.
func TestWhatIsRenewedDoesNotEndBeforeThatIsDurable(t *testing.T) {
	l := ready(t)
	a := reserve(t, l, "alice")
	l.Durable(start, l.Revision())
	_, err := l.Renew(start.Add(time.Minute), ledger.RenewCommand{Actor: identity.Local(), ID: a.ID})
	must(t, err)
	l.Advance(start.Add(4 * time.Minute))
	if _, live := l.Get(a.ID); !live {
		t.Error("it has ended while its renewal was being stored")
	}
	l.Heard(start.Add(4*time.Minute), ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2})
	l.Durable(start.Add(4*time.Minute), l.Revision())
	l.Advance(start.Add(6*time.Minute - 1))
	if _, live := l.Get(a.ID); !live {
		t.Error("it has ended too early")
	}
	l.Advance(start.Add(6 * time.Minute))
	if _, live := l.Get(a.ID); live {
		t.Error("it has not ended")
	}
}

// An answer has 512 KiB for the reasons of its orders to stop. Those that are beyond that come
// without one.
func TestReasonsToStopShareTheRoomOfAnAnswer(t *testing.T) {
	l := ready(t)
	half := strings.Repeat("x", 256<<10)
	for i, reason := range []string{half, half, "y"} {
		id := reserve(t, l, "alice").ID
		_, err := l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: id, Process: ledger.Process{PID: int32(100 + i)}})
		must(t, err)
		_, err = l.Stop(start, ledger.StopCommand{Actor: identity.Local(), ID: id, Reason: reason})
		must(t, err)
	}
	answer, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2})
	must(t, err)
	var told []string
	for _, stop := range answer.Stops {
		told = append(told, stop.Reason)
	}
	if !slices.Equal(told, []string{half, half, ""}) {
		t.Errorf("%d orders to stop; want two with their reasons, and one without", len(told))
	}
}

// An agent gets the time that an engine has between the two signals.
func TestAStopHasTheGraceThatItWasGivenWith(t *testing.T) {
	short := 3 * time.Second
	for name, test := range map[string]struct {
		given *time.Duration
		want  time.Duration
	}{"given": {&short, short}, "not given": {nil, 10 * time.Second}, "none": {new(time.Duration), 0}} {
		l := ready(t)
		a := reserve(t, l, "alice")
		_, err := l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: a.ID, Process: ledger.Process{PID: 100}})
		must(t, err)
		stopped, err := l.Stop(start, ledger.StopCommand{Actor: identity.Local(), ID: a.ID, Grace: test.given})
		must(t, err)
		answer, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2})
		must(t, err)
		if stopped.StopGrace != test.want || len(answer.Stops) != 1 || answer.Stops[0].Grace != test.want {
			t.Errorf("%s: %v, told %+v; want %v", name, stopped.StopGrace, answer.Stops, test.want)
		}
	}
}

// What ends lets others be granted, in the same step, whichever command ends it.
func TestWhateverEndsLetsOthersIn(t *testing.T) {
	here := identity.Local()
	for name, end := range map[string]func(l *ledger.Ledger, id ledger.ID) error{
		"Release": func(l *ledger.Ledger, id ledger.ID) error {
			_, err := l.Release(start, ledger.ReleaseCommand{Actor: here, ID: id})
			return err
		},
		"Cancel": func(l *ledger.Ledger, id ledger.ID) error {
			_, err := l.Cancel(start, ledger.CancelCommand{Actor: here, ID: id})
			return err
		},
		"Stop": func(l *ledger.Ledger, id ledger.ID) error {
			_, err := l.Stop(start, ledger.StopCommand{Actor: here, ID: id})
			return err
		},
		"Resize": func(l *ledger.Ledger, id ledger.ID) error {
			_, err := l.Resize(start, ledger.ResizeCommand{Actor: here, ID: id, Entitled: resource.NewResource(resource.Vector{}.WithMemory(0))})
			return err
		},
		"Confirm": func(l *ledger.Ledger, id ledger.ID) error {
			less := resource.NewResource(resource.Vector{}.WithMemory(0))
			_, err := l.Confirm(start, ledger.ConfirmCommand{Actor: here, ID: id, Entitled: &less})
			return err
		},
	} {
		l := ready(t)
		must(t, l.PutQuota(start, ledger.Quota{Limit: resource.Vector{}.WithMemory(1)}))
		a := reserve(t, l, "alice")
		waits, err := ask(l, start, "bob", 1, func(c *ledger.AllocateCommand) { c.Wait, c.Async = time.Hour, true })
		must(t, err)
		must(t, end(l, a.ID))
		if now, _ := l.Get(waits.ID); now.State != ledger.Reserved {
			t.Errorf("%s: who waited is %s; want reserved", name, now.State)
		}
	}
}

// An engine whose applications have ended ends. One that names another before all clusters have
// said so lives as long as that, and a cluster has the same time to get to know the other as it
// had for the first.
func TestAnEngineThatNamesAnotherApplicationLivesOn(t *testing.T) {
	dev := ledger.ClusterName{Kind: "yarn", Cluster: "dev"}
	ended := func(ids ...string) (answers []ledger.ApplicationReport) {
		for _, id := range ids {
			answers = append(answers, ledger.ApplicationReport{ID: id, Known: true, Ended: true})
		}
		return answers
	}
	type step struct {
		after   time.Duration
		cluster ledger.ClusterName
		answers []ledger.ApplicationReport
		lives   bool
	}
	const soon, later = 11500 * time.Millisecond, 20 * time.Second
	for name, steps := range map[string][]step{
		"what one cluster said before counts no more": {
			{later, yarnProd, ended("one", "two"), true},
			{later, dev, ended("one", "two"), false},
		},
		"a cluster need not know it at once": {
			{soon, yarnProd, append(ended("one"), ledger.ApplicationReport{ID: "two"}), true},
			{soon, dev, append(ended("one"), ledger.ApplicationReport{ID: "two"}), true},
			{later, yarnProd, append(ended("one"), ledger.ApplicationReport{ID: "two"}), true},
			{later, dev, append(ended("one"), ledger.ApplicationReport{ID: "two"}), false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := ready(t)
			report := func(after time.Duration, name ledger.ClusterName, answers []ledger.ApplicationReport) {
				t.Helper()
				l.Heard(start.Add(after), ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2 + uint64(after)})
				must(t, l.ReportCluster(start.Add(after), ledger.ClusterReport{
					ClusterName: name, Asked: start.Add(after), GoodFor: time.Hour, Settle: time.Second, Applications: answers,
					Queues: []ledger.QueueReport{{Path: "root", Limit: resource.Vector{}.WithMemory(8)}},
				}))
			}
			var parts []resource.External
			for _, name := range []ledger.ClusterName{dev, yarnProd} {
				must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: name}))
				report(0, name, nil)
				parts = append(parts, resource.External{
					Address: resource.Address{Kind: "yarn", Cluster: name.Cluster, Path: "root"}, Vector: resource.Vector{}.WithMemory(2),
				})
			}
			a, err := ask(l, start, "alice", 1, func(c *ledger.AllocateCommand) { c.Resource.External = parts })
			must(t, err)
			confirm := func(after time.Duration, application string) {
				t.Helper()
				_, err := l.Confirm(start.Add(after), ledger.ConfirmCommand{Actor: identity.Local(), ID: a.ID, ApplicationIDs: []string{application}})
				must(t, err)
			}
			confirm(0, "one")
			report(10*time.Second, dev, ended("one")) // and not yet in the other cluster
			confirm(11*time.Second, "two")
			for i, s := range steps {
				report(s.after, s.cluster, s.answers)
				if _, lives := l.Get(a.ID); lives != s.lives {
					t.Fatalf("after the report %d of %s it lives: %t; want %t", i, s.cluster, lives, s.lives)
				}
			}
		})
	}
}

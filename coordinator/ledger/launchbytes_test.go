package ledger_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// The row of a launch counts on its caller, in the store's bytes, until it is deleted.
func TestRowsOfLaunchesCountOnTheirCaller(t *testing.T) {
	const row, most = 60 << 10, 1 << 20
	w := newLiveWorld(t, ledger.Config{CallerLiveBytes: most}, "h1", "h2")
	begin := func(id int) (ledger.Allocation, error) {
		result, err := w.ledger.Allocate(w.now, ledger.AllocateCommand{
			Actor: identity.Actor{Name: "alice", Anyone: true}, RequestID: fmt.Sprint(id), Async: true, Resource: resource.NewResource(resource.Vector{}.WithMemory(1)),
			Labels: label.Set{{Key: "user", Value: "u"}}, Launch: &ledger.LaunchRequest{Account: "etl", Program: "true", Watched: true, Retries: 1, Spec: make([]byte, row)},
		})
		return result.Allocation, err
	}
	var list []ledger.Allocation
	for {
		a, err := begin(len(list))
		if full := (*ledger.LiveFullError)(nil); errors.As(err, &full) {
			break
		}
		must(t, err)
		list = append(list, a)
	}
	if len(list) < most/row-3 || len(list) > most/row {
		t.Fatalf("%d launches of %d bytes, of %d", len(list), row, most)
	}
	w.audit()
	full := w.ledger.CallerBytes("alice")
	start := func(a *ledger.Allocation) {
		t.Helper()
		_, err := w.ledger.StartLaunch(w.now, ledger.LaunchStarted{HostID: a.HostID, Incarnation: 1, ID: a.ID, GrantRevision: a.GrantRevision, Process: ledger.Process{PID: int32(a.ID), StartTime: 1, Launched: true}})
		must(t, err)
		_, err = w.ledger.BeginLaunch(w.now, ledger.LaunchBegun{HostID: a.HostID, Incarnation: 1, ID: a.ID, LogDirectory: "/log"})
		must(t, err)
	}
	start(&list[0]) // it may be launched again: the row stays
	if left := full - w.ledger.CallerBytes("alice"); left > row/2 {
		t.Errorf("a row that stays counts %d less", left)
	}
	_, err := w.ledger.FailLaunch(w.now, ledger.LaunchFailed{HostID: list[1].HostID, Incarnation: 1, ID: list[1].ID, GrantRevision: list[1].GrantRevision, Reason: "away"})
	must(t, err) // it is tried on the other host
	w.audit()
	for i := range list {
		if a, there := w.ledger.Get(list[i].ID); there {
			w.release(a.ID)
		}
	}
	for _, host := range []string{"h1", "h2"} {
		w.sync(host, 2) // without the engines
	}
	w.audit()
	if _, err := begin(1000); err != nil {
		t.Errorf("after they have ended: %v; %d bytes", err, w.ledger.CallerBytes("alice"))
	}
}

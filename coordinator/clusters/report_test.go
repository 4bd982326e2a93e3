package clusters

import (
	"slices"
	"strings"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// A cluster's diagnostics of a failed application are truncated, without terminal control
// characters.
func TestDiagnosticsAreCutAndCleaned(t *testing.T) {
	long := "exit\x1b[2J\u202e 1\n\n at X.java " + strings.Repeat("y", 70_000)
	answers := []providers.Application{
		{ID: "a_1", Known: true, Ended: true, Failure: "FAILED", Diagnostics: long},
		{ID: "a_2", Known: true, Queue: "root.\xff"},
	}
	got := applicationReports(answers, []string{"a_1", "a_2"})
	if len(got) != 1 || got[0].Failure != "FAILED" || len(got[0].Diagnostics) > mostDiagnostics || !strings.HasPrefix(got[0].Diagnostics, "exit?[2J? 1 at X.java yy") {
		t.Errorf("reported is %+v; want the beginning of the first, printable, and not the second", got)
	}
}

// Limits of users reach the ledger sorted by name, and only if they are valid.
func TestUsersOfQueuesAreReported(t *testing.T) {
	am := func(n int64) resource.Vector { return resource.Vector{}.With(resource.AMMemory, n) }
	reports, err := QueueReports([]providers.Queue{
		{Path: "root"},
		{Path: "root.a", UserLimit: am(3), FirstIsFree: true, Users: []providers.User{{Name: "bob", Limit: am(2)}, {Name: "alice", Limit: am(1), Used: am(1)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if reports[0].Users != nil || reports[0].FirstIsFree {
		t.Errorf("the root limits nothing, and is reported with %+v", reports[0])
	}
	got := reports[1].Users
	same := func(a, b ledger.UserReport) bool {
		return a.User == b.User && a.Limit.Equal(b.Limit) && a.Used.Equal(b.Used)
	}
	want := []ledger.UserReport{{User: "alice", Limit: am(1), Used: am(1)}, {User: "bob", Limit: am(2)}}
	if got == nil || !got.Limit.Equal(am(3)) || !reports[1].FirstIsFree || !slices.EqualFunc(got.Listed, want, same) {
		t.Errorf("reported are %+v; want %+v, and 3 for others", got, want)
	}
	for name, users := range map[string][]providers.User{
		`user "bob": want each once`: {{Name: "bob"}, {Name: "alice"}, {Name: "bob"}},
		`user "bob": am-memory`:      {{Name: "bob", Used: am(-1)}},
	} {
		if _, err := QueueReports([]providers.Queue{{Path: "root", Users: users}}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v; want %s", err, name)
		}
	}
}

// Details of a queue reach the ledger; a queue without any has none.
func TestDetailsOfQueuesAreReported(t *testing.T) {
	largest, most, percent := resource.Vector{}.WithMemory(8<<30), resource.Vector{}.WithMemory(32<<30), 25.0
	reports, err := QueueReports([]providers.Queue{
		{Path: "root"},
		{Path: "root.a", LargestContainer: largest, NotEnforced: []string{resource.CPU}, Estimated: []string{resource.AMMemory}, UserPercent: &percent},
		{Path: "root.b", MayGrow: most},
		{Path: "root.c", UsersMayGrow: most},
		{Path: "root.d", HeldBack: 2, HeldBackBy: "no machine\nhas \u202e that " + strings.Repeat("much ", 100)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if reports[0].Details != nil {
		t.Errorf("nothing is said of the root, and %+v is reported", reports[0].Details)
	}
	if d := reports[1].Details; d == nil || !d.LargestContainer.Equal(largest) || len(d.NotEnforced) != 1 || len(d.Estimated) != 1 || d.UserPercent != &percent {
		t.Errorf("reported is %+v", d)
	}
	if d := reports[2].Details; d == nil || !d.MayGrow.Equal(most) || !d.UsersMayGrow.IsUnset() {
		t.Errorf("of a queue that may grow is reported %+v", d)
	}
	if d := reports[3].Details; d == nil || !d.UsersMayGrow.Equal(most) || !d.MayGrow.IsUnset() {
		t.Errorf("of users who may have more later is reported %+v", d)
	}
	if d := reports[4].Details; d == nil || d.HeldBack.Applications != 2 || !strings.HasPrefix(d.HeldBack.Reason, "no machine has ? that much") || len(d.HeldBack.Reason) > 310 {
		t.Errorf("of a queue that holds back is reported %+v", d)
	}
	less := resource.Vector{}.WithMemory(-1)
	for _, q := range []providers.Queue{{Path: "root", LargestContainer: less}, {Path: "root", MayGrow: less}, {Path: "root", UsersMayGrow: less}} {
		if _, err := QueueReports([]providers.Queue{q}); err == nil {
			t.Errorf("less than nothing is reported: %+v", q)
		}
	}
}

package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// Two hosts are on one machine if their agents have the same machine id and boot id. Each of them
// gives away what it sees of the machine, so that is said, as long as both report.
func TestHostsOnOneMachineAreKnown(t *testing.T) {
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	now := start
	incarnation := uint64(0)
	register := func(id, machine, boot string) {
		t.Helper()
		incarnation++
		_, err := l.Register(now, ledger.RegisterCommand{
			HostID: id, MachineID: machine, BootID: boot, PIDNamespace: "1", Incarnation: incarnation, Capacity: resource.Vector{}.WithMemory(8),
		})
		must(t, err)
	}
	expect := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, ids := range l.SharedMachines(10) {
			got = append(got, fmt.Sprint(ids))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q are on one machine; want %q", what, got, want)
		}
	}
	register("h1", "m1", "b1")
	register("h2", "m1", "b2") // a copy of the machine's disk, or of another boot
	register("h3", "", "b1")   // not known
	register("h4", "", "b1")
	expect("different machines")
	register("h5", "m1", "b1")
	expect("a second agent", "[h1 h5]")
	if got := l.SameMachine("h5"); !slices.Equal(got, []string{"h1"}) {
		t.Errorf("on the machine of h5 are %q; want h1", got)
	}
	info, _ := l.Host("h1")
	if !slices.Equal(info.SameMachine, []string{"h5"}) {
		t.Errorf("h1 shows %q; want h5", info.SameMachine)
	}
	now = now.Add(10 * time.Second)
	_, err := l.Sync(now, ledger.SyncCommand{HostID: "h5", Incarnation: incarnation, Sequence: 1, BootID: "b1", Full: true})
	must(t, err)
	now = now.Add(10 * time.Second)
	l.Advance(now) // h1 is suspect: it may have got another id
	expect("one is silent")
	register("h1", "m1", "b3")
	register("h6", "m1", "b3")
	expect("both were booted", "[h1 h6]")
	must(t, l.Deregister(now, "h1", false))
	expect("one was removed")
}

package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// As soon as a host is held for a request that waits for it, requests for any host do not get it,
// and as soon as it is not held any more they do: neither needs the host's next report.
func TestAHeldHostIsClosedAndOpenedAtOnce(t *testing.T) {
	const starvation = 30 * time.Second
	memory := int64(10)
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	_, err := l.Register(start, ledger.RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(memory)})
	must(t, err)
	report := func(after time.Duration) {
		t.Helper()
		_, err := l.Sync(start.Add(after), ledger.SyncCommand{
			HostID: "h1", Incarnation: 1, Sequence: 1 + uint64(after/time.Second), Full: true, Sample: &ledger.Sample{MemoryAvailable: &memory, Time: start.Add(after)},
		})
		must(t, err)
	}
	report(0)
	_, err = ask(l, start, "alice", 6)
	must(t, err)
	waits, err := ask(l, start, "bob", 8, func(c *ledger.AllocateCommand) {
		c.Wait, c.Async, c.Wishes = time.Hour, true, &ledger.Wishes{Host: "h1"}
	})
	must(t, err)
	_, err = ask(l, start, "carol", 1) // goes past bob
	must(t, err)
	report(10 * time.Second)
	report(20 * time.Second)
	report(starvation - time.Second)

	_, err = ask(l, start.Add(starvation), "dave", 1)
	refusal, refused := errors.AsType[*ledger.InsufficientError](err)
	if h, _ := l.Host("h1"); !refused || refusal.Filters.Held != 1 || h.Account.HeldFor != waits.ID {
		t.Fatalf("held for %v, and somebody else gets %v", h.Account.HeldFor, err)
	}
	_, err = l.Cancel(start.Add(starvation), ledger.CancelCommand{Actor: identity.Local(), ID: waits.ID})
	must(t, err)
	if _, err := ask(l, start.Add(starvation), "dave", 1); err != nil {
		t.Errorf("held for nobody any more: %v", err)
	}
}

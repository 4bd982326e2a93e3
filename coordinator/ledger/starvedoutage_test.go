package ledger_test

import (
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// A request that waited for 10 s before no coordinator led for 2 h has waited for 10 s.
func TestNobodyStarvesWhileNoCoordinatorLeads(t *testing.T) {
	const starves = 30 * time.Second
	created := ledger.Instant(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	before := created.Add(10 * time.Second)
	after := before.Add(2 * time.Hour)
	outages, more := ledger.Outages(nil).Until(after, 7, before)
	if !more {
		t.Fatal("there was no outage")
	}
	if left := outages.After(created, starves).Sub(after); left < 19*time.Second || left > 21*time.Second {
		t.Errorf("it is starved after another %s, want 20 s", left)
	}
	long := before.Add(-time.Hour)
	if since := outages.After(long, starves); since != long.Add(starves) {
		t.Errorf("one that was starved before is starved since %s, want %s", since.Time(), long.Add(starves).Time())
	}
}

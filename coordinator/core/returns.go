package core

import (
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// returnsAtOnce is the time within which full reports may come at once. So the reports of some
// dozen hosts are not spread.
const returnsAtOnce = 100 * time.Millisecond

// returns spreads the full reports of hosts from an earlier leadership: each host has a slot of its
// own. A host gets one slot in a leadership, so it takes no other host's slot if it asks again.
type returns struct {
	next  ledger.Instant            // the first free slot
	slots map[string]ledger.Instant // by host
}

// after returns how long a host should wait for its slot; 0: not at all. Slots are gap apart.
func (r *returns) after(host string, now ledger.Instant, gap time.Duration) time.Duration {
	slot, known := r.slots[host]
	if !known {
		slot = max(now, r.next)
		r.slots[host], r.next = slot, slot.Add(gap)
	}
	if wait := slot.Sub(now); wait > returnsAtOnce {
		return wait
	}
	return 0
}

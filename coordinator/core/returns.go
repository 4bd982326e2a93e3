package core

import (
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// returnsAtOnce is how far apart in time full reports need not be: those that would come within it
// may come at once. A fleet of some dozen hosts is not spread.
const returnsAtOnce = 100 * time.Millisecond

// returns spreads the full reports of hosts that come from an earlier leadership: each host has a
// slot of its own. A host gets one slot in a leadership, so it takes nobody else's by asking again.
type returns struct {
	next  ledger.Instant            // the first slot that nobody has
	slots map[string]ledger.Instant // by host
}

// after is how long a host is to wait for its slot; 0: it need not. Slots are gap apart.
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

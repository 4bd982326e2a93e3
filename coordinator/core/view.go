package core

import (
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// View is an overview at one time.
type View struct {
	Meta     store.Meta
	Revision uint64
	Counts   ledger.Counts
	Skew     Skew
	Setback  Setback
	// Full has the callers whose live allocations have nearly reached their limit.
	Full []ledger.LiveFullError
	// Shared has the hosts that report from the same machine, by machine, up to mostShared
	// machines.
	Shared [][]string
}

// mostShared bounds how many machines with several hosts are in a View.
const mostShared = 20

// View returns the current overview.
func (c *Core) View() View {
	return View{Meta: c.meta, Revision: c.ledger.Revision(), Counts: c.ledger.Counts(), Skew: c.skew, Setback: c.setback.Setback, Full: c.ledger.FullCallers(), Shared: c.ledger.SharedMachines(mostShared)}
}

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
	// Full has the callers whose live allocations take nearly as much as they may.
	Full []ledger.LiveFullError
}

// View returns the overview of now.
func (c *Core) View() View {
	return View{Meta: c.meta, Revision: c.ledger.Revision(), Counts: c.ledger.Counts(), Skew: c.skew, Full: c.ledger.FullCallers()}
}

package core

import (
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// View is the whole at one moment.
type View struct {
	Meta     store.Meta
	Revision uint64
	Counts   ledger.Counts
	Skew     Skew
	Full     []ledger.LiveFullError // callers with nearly as much as they may have
}

// View is the whole as it is now.
func (c *Core) View() View {
	return View{Meta: c.meta, Revision: c.ledger.Revision(), Counts: c.ledger.Counts(), Skew: c.skew, Full: c.ledger.FullCallers()}
}

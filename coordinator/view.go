package coordinator

import (
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// view is the whole at one moment.
type view struct {
	meta     store.Meta
	revision uint64
	counts   ledger.Counts
	skew     skew
	full     []ledger.LiveFullError // callers with nearly as much as they may have
}

// view is the whole as it is now.
func (c *Core) view() view {
	return view{meta: c.meta, revision: c.ledger.Revision(), counts: c.ledger.Counts(), skew: c.skew, full: c.ledger.FullCallers()}
}

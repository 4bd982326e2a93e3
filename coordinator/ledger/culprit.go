package ledger

// Culprit is what the ledger was about when it panicked.
type Culprit struct {
	// Request is a stored request that waits, and was being looked at: it would be looked at again after a restart. Zero id: none.
	Request Allocation
	// Early says that the command had not begun yet: it happened in what was due before.
	Early bool
}

// Culprit says what a panic was about. It may be called after one, unlike all else.
func (l *Ledger) Culprit() Culprit {
	c := Culprit{Early: l.early}
	if e := l.deciding; e != nil && (e.State == Waiting || l.admits) && l.entry(e.ID) == e {
		c.Request = e.Allocation
	}
	return c
}

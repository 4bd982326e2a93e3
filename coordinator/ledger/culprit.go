package ledger

// Culprit is the ledger's work at the time of a panic.
type Culprit struct {
	// Request is a stored request that waits and was being decided. It would be decided again
	// after a restart. Zero id: none.
	Request Allocation
	// Early says that the command had not begun: the panic was in the work that was due before it.
	Early bool
}

// Culprit returns the cause of a panic. It is the only method that may be called after a panic.
func (l *Ledger) Culprit() Culprit {
	c := Culprit{Early: l.early}
	if e := l.deciding; e != nil && (e.State == Waiting || l.admits) && l.entry(e.ID) == e {
		c.Request = e.Allocation
	}
	return c
}

package ledger

// Changes returns the changes since its last call, and begins an empty list.
func (l *Ledger) Changes() Changes {
	c := l.changes
	c.Revision, c.LastID, c.Time = l.revision, l.lastID, l.now
	if l.changes = (Changes{Transitions: l.rows}); l.rows == nil {
		// the next batch is likely to be about as large
		l.changes.Transitions = make([]Allocation, 0, len(c.Transitions))
	}
	l.rows = nil
	l.taken = l.own
	return c
}

// mostReused is how many transitions an array has room for at most that is used again. A larger one
// is of a batch that was unusual.
const mostReused = 4096

// Reuse takes back the array of the transitions that Changes returned, for a later batch, so that
// not every batch needs a new one: a row has more than 600 bytes. Nobody may read the transitions
// any more; readers that need them longer must copy them before.
func (l *Ledger) Reuse(c *Changes) {
	rows := c.Transitions
	c.Transitions = nil
	if cap(rows) > mostReused || cap(rows) <= cap(l.rows) {
		return
	}
	clear(rows) // what the rows point to can go
	l.rows = rows[:0]
}

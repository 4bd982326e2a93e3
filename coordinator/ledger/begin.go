package ledger

// Begin does what the next command begins with: it moves time on, and does what is due by then. The
// command need not do it again at this time. So that can be told from what the command does itself.
func (l *Ledger) Begin(now Instant) {
	l.begun = false
	l.begin(now)
	l.begun = true
}

// begin starts a command: it moves time on, and does what is due by then.
func (l *Ledger) begin(now Instant) {
	l.commands++
	begun := l.begun && now <= l.now
	if l.begun = false; begun {
		return
	}
	l.now = max(l.now, now)
	l.early = true
	l.fire()
	before := l.revision
	l.grantWaiting()
	l.own += int(l.revision - before) //nolint:gosec // what one step grants at most
	l.early = false
}

package ledger

import "iter"

// Unstored is how many times to live do not count yet.
func (l *Ledger) Unstored() int { return len(l.unstored) }

// HostBytes is what the rows of a host count with, and which part of that is one caller's.
func (l *Ledger) HostBytes(host, caller string) (all, its int64) {
	h := l.hosts[host]
	return h.bytes, h.callers[l.callers[caller]]
}

// CallerBytes is what the live allocations of a caller take: LiveBytes of each, LiveOverhead and
// QueueOverhead included.
func (l *Ledger) CallerBytes(caller string) int64 { return l.callers.of(caller) }

// RelayedBytes is the same of all callers of a host's agent together.
func (l *Ledger) RelayedBytes(host string) int64 { return l.relays.of(host) }

// AuditStepsOf is AuditSteps with steps of another size.
func (l *Ledger) AuditStepsOf(size int) iter.Seq[*AuditResult] { return l.auditSteps(size) }

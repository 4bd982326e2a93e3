package ledger

import (
	"fmt"
	"iter"
	"sort"

	"github.com/tidwall/btree"
)

const (
	// auditStep is how many allocations, or accounts, one step of an audit looks at. One takes 1
	// to 2 µs.
	auditStep = 256
	// mostStale bounds how many changes an audit may have to catch up with. If there are more, it
	// begins again.
	mostStale = 1 << 20
)

// AuditResult is the result of an audit so far.
type AuditResult struct {
	Violations []Violation
	// From is the revision at which it began, To the one at which it ended. Done: it has ended.
	From, To uint64
	Done     bool
	// Allocations and Accounts are how many it has looked at.
	Allocations, Accounts int
	// Restarts is how often it had to begin again.
	Restarts int
}

// AuditSteps is Audit in steps. It yields the result so far after each step; until the next one the
// ledger may be used as always. At the end it yields once more.
//
// The audit looks at every allocation, and every account, at some moment between From and To. It
// compares an account with its allocations as they are at that moment: before a comparison it
// counts changed allocations again. So a right ledger has no violations, however much changes
// meanwhile, and a wrong sum stays wrong until it is found.
//
// If the rules are replaced the audit begins again, because all allocations count elsewhere then. A
// ledger has one audit at a time: once another one has begun, this one must not be continued.
func (l *Ledger) AuditSteps() iter.Seq[*AuditResult] { return l.auditSteps(auditStep) }

func (l *Ledger) auditSteps(size int) iter.Seq[*AuditResult] {
	return func(yield func(*AuditResult) bool) {
		for restarts := 0; ; restarts++ {
			result := &AuditResult{From: l.revision, Restarts: restarts}
			a := newAuditor(l, result, yield)
			a.size = size
			l.auditor = a
			if a.run() {
				l.auditor = nil
				result.To, result.Done = l.revision, true
				yield(result)
				return
			}
			if !a.again || !yield(result) {
				if l.auditor == a { // nobody goes on with it
					l.auditor = nil
				}
				return
			}
		}
	}
}

// auditor is an audit that is under way. It keeps sums of its own, from the allocations that it
// has counted.
type auditor struct {
	*Ledger

	result     *AuditResult
	yield      func(*AuditResult) bool
	generation uint64 // of the rules that it counts by
	size       int    // of a step
	looked     int    // in this step
	again      bool   // it must begin again

	// The allocations up to after were counted, and those that came since the audit began, whose
	// ids are above last. stale are those of them that have changed since.
	after, last ID
	stale       []ID
	entries     btree.Map[ID, *counted]

	sums                    map[*account]*balances
	largest                 int64 // of together
	callerBytes, relayBytes byteSums

	quotas []*account // scratch
	key    []byte     // scratch
}

func newAuditor(l *Ledger, result *AuditResult, yield func(*AuditResult) bool) *auditor {
	last, _, _ := l.entries.Max()
	return &auditor{
		Ledger: l, result: result, yield: yield, generation: l.rulesGeneration, last: last,
		sums: make(map[*account]*balances), callerBytes: make(byteSums), relayBytes: make(byteSums),
	}
}

// reportf adds a violation.
func (a *auditor) reportf(invariant int, format string, args ...any) {
	a.result.Violations = append(a.result.Violations, Violation{invariant, fmt.Sprintf(format, args...)})
}

// run does all of it, and reports whether it came to the end.
func (a *auditor) run() bool {
	return a.countAll() && a.compareQuotas() && a.compareHosts() && a.compareClusters() &&
		a.compareUsages("caller", a.callers, a.callerBytes) && a.compareUsages("callers of host", a.relays, a.relayBytes) && a.compareClaims()
}

// step counts one more thing that is about to be looked at. If the step has enough, it ends it
// first. It reports whether the audit goes on.
func (a *auditor) step() bool {
	if a.looked++; a.looked <= a.size {
		return true
	}
	a.looked = 1
	return a.yield(a.result) && a.catchUp()
}

// catchUp counts changed allocations again, in steps if they are many.
func (a *auditor) catchUp() bool {
	for {
		if a.generation != a.rulesGeneration || len(a.stale) >= mostStale {
			a.again = true
			return false
		}
		n := min(len(a.stale), a.size)
		for _, id := range a.stale[:n] {
			a.recount(id)
		}
		if a.stale = a.stale[n:]; len(a.stale) == 0 {
			a.stale = nil
			return true
		}
		if !a.yield(a.result) {
			return false
		}
	}
}

// noteChange says that an entry has changed, or has ended.
func (a *auditor) noteChange(id ID) {
	if (id <= a.after || id > a.last) && len(a.stale) < mostStale {
		a.stale = append(a.stale, id)
	}
}

// recount counts an allocation as it is now, instead of how it was counted.
func (a *auditor) recount(id ID) {
	if c, known := a.entries.Get(id); known {
		a.add(c, -1)
		a.entries.Delete(id)
	}
	if e := a.entry(id); e != nil {
		a.count(id, e)
	}
}

// countAll counts the allocations that were there when the audit began.
func (a *auditor) countAll() bool {
	for more := true; more; {
		more = false
		a.Ledger.entries.Ascend(a.after, func(id ID, e *entry) bool {
			switch {
			case id > a.last:
				return false
			case id == a.after:
				return true
			case a.looked >= a.size:
				more = true
				return false
			}
			a.looked++
			a.result.Allocations++
			a.count(id, e)
			a.after = id
			return true
		})
		if more && !a.step() {
			return false
		}
	}
	a.after = a.last
	return true
}

// compareQuotas compares the accounts of rules.
func (a *auditor) compareQuotas() bool {
	for _, s := range a.rules.scopes {
		for key, quota := range s.accounts {
			if !a.step() {
				return false
			}
			if s.accounts[key] == quota { // else it has gone in the meantime
				a.compare(quota)
				for _, parts := range quota.externals() {
					a.compare(parts)
				}
			}
		}
	}
	return true
}

// compareHosts compares the hosts.
func (a *auditor) compareHosts() bool {
	for after, more := "", true; more; {
		if !a.step() {
			return false
		}
		at := 0
		if after != "" {
			at = sort.Search(len(a.hostOrder), func(i int) bool { return a.hostOrder[i].ID > after })
		}
		if more = at < len(a.hostOrder); more {
			h := a.hostOrder[at]
			a.looked += len(h.entries) / 2
			after = h.ID
			a.compareHost(h)
		}
	}
	for id, h := range a.hosts {
		if !a.step() {
			return false
		}
		at := sort.Search(len(a.hostOrder), func(i int) bool { return a.hostOrder[i].ID >= id })
		if a.hosts[id] == h && (at == len(a.hostOrder) || a.hostOrder[at] != h) {
			a.reportf(3, "%d allocations touch %s, which is in no table", h.account.held, h.account.name)
		}
	}
	return true
}

// compareClusters compares the queues of clusters.
func (a *auditor) compareClusters() bool {
	for name, c := range a.clusters {
		if !a.step() {
			return false
		}
		if a.clusters[name] == c && !a.compareCluster(name, c) {
			return false
		}
	}
	a.looked += len(a.hostOrder) / 16
	if !a.step() {
		return false
	}
	if a.together != a.largest {
		a.reportf(2, "the largest quantities of all allocations add up to %d, and are said to be %d", a.largest, a.together)
	}
	a.compareCreators()
	a.compareFull()
	return true
}

// Recorded is how many bytes the rows of allocations had that have changed since the ledger was
// made.
func (l *Ledger) Recorded() int64 { return l.recorded }

// noteRecorded takes note of an entry that has a new form.
func (l *Ledger) noteRecorded(e *entry) {
	l.recorded += int64(e.bytes)
	l.noteForAudit(e)
}

// noteForAudit tells an audit that is under way that an entry counts as something else.
func (l *Ledger) noteForAudit(e *entry) {
	if l.auditor != nil {
		l.auditor.noteChange(e.ID)
	}
}

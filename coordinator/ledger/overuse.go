package ledger

import (
	"cmp"
	"slices"
)

// OverUse says that an engine uses more of one dimension than its entitlement. Its accounts still
// count the entitlement.
type OverUse struct {
	Dimension string // resource.Memory or resource.CPU
	// In bytes or thousandths of a core: the use when the over-use was noticed (of memory, the part
	// that the kernel cannot take back), and the entitlement.
	Used, Entitled int64
	Since          Instant // without a break
	Policy         OverUsePolicy
	// StopTime is, under PolicyKill, when it is stopped if the over-use goes on; else zero.
	StopTime Instant
}

// OverUsePolicy is a host's policy for an engine that uses more than its entitlement. The values
// are stored: only add values, never renumber them.
type OverUsePolicy uint8

// The policies.
const (
	PolicyObserve OverUsePolicy = iota + 1 // it is shown
	PolicyWarn                             // its agent's log says so too
	PolicyLimit                            // the kernel keeps it to its entitlement
	PolicyKill                             // it is stopped if it goes on
)

func (p OverUsePolicy) String() string {
	switch p {
	case PolicyObserve:
		return "observe"
	case PolicyWarn:
		return "warn"
	case PolicyLimit:
		return "limit"
	case PolicyKill:
		return "kill"
	default:
		return "unknown"
	}
}

// OverUseKind is the key by which engines in over-use are counted.
type OverUseKind struct {
	Dimension string
	Policy    OverUsePolicy
}

// updateOverUse stores an agent's report about the over-use of an engine. It reports whether the
// change must be recorded: over-use begins, ends or begins again in a dimension, or the policy or
// the entitlement is another one. Other changes are not kept, so that an engine in over-use does
// not cost a commit with every heartbeat.
func (l *Ledger) updateOverUse(e *entry, said []OverUse) (changed bool) {
	next := make([]OverUse, 0, len(said))
	for _, u := range said {
		u.Dimension = validText(u.Dimension)
		if u.Policy > PolicyKill || slices.ContainsFunc(next, func(v OverUse) bool { return v.Dimension == u.Dimension }) {
			continue
		}
		before := slices.IndexFunc(e.OverUse, func(v OverUse) bool { return v.Dimension == u.Dimension && v.Policy == u.Policy })
		if before >= 0 && u.Since <= e.OverUse[before].Since && u.Entitled == e.OverUse[before].Entitled {
			u = e.OverUse[before]
		} else {
			changed = true
			if u.Since == 0 {
				u.Since = l.now
			}
		}
		next = append(next, u)
	}
	if changed = changed || len(next) != len(e.OverUse); changed {
		slices.SortFunc(next, func(a, b OverUse) int { return cmp.Compare(a.Dimension, b.Dimension) })
		l.countOverUse(e, -1)
		e.OverUse = slices.Clip(next)
		l.countOverUse(e, 1)
	}
	return changed
}

// countOverUse counts, or with -1 discounts, the over-use of an entry.
func (l *Ledger) countOverUse(e *entry, by int) {
	for i := range e.OverUse {
		kind := OverUseKind{e.OverUse[i].Dimension, e.OverUse[i].Policy}
		if l.overUse[kind] += by; l.overUse[kind] == 0 {
			delete(l.overUse, kind)
		}
	}
	if len(e.OverUse) > 0 {
		l.overUsers += by
	}
}

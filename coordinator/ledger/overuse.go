package ledger

import (
	"cmp"
	"slices"
)

// OverUse says that an engine uses more of one dimension than it is entitled to. Its accounts go on counting what it is entitled to.
type OverUse struct {
	Dimension string // resource.Memory or resource.CPU
	// Bytes or thousandths of a core: what it used when that was noticed, of memory what the kernel cannot take back, and what it was
	// entitled to.
	Used, Entitled int64
	Since          Instant // without a break
	Policy         OverUsePolicy
	StopTime       Instant // under PolicyKill: when it is stopped if it goes on; else zero
}

// OverUsePolicy is what a host does about an engine that uses more than it is entitled to. The values are stored: add, never renumber.
type OverUsePolicy uint8

// The policies.
const (
	PolicyObserve OverUsePolicy = iota + 1 // it is shown
	PolicyWarn                             // its agent's log says so too
	PolicyLimit                            // the kernel keeps it to its entitlement
	PolicyKill                             // it is stopped when it goes on
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

// OverUseKind is what engines in over-use are counted by.
type OverUseKind struct {
	Dimension string
	Policy    OverUsePolicy
}

// updateOverUse takes over what a host's agent says that an engine uses beyond its entitlement, and reports whether others must see it: that begins or
// ends in a dimension, begins once more, or meets another policy or entitlement. What else changes meanwhile is not kept, so that an engine
// in over-use does not cost a commit with every heartbeat.
func (l *Ledger) updateOverUse(e *entry, said []OverUse) (changed bool) {
	next := make([]OverUse, 0, len(said))
	for _, u := range said {
		u.Dimension = words(u.Dimension)
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

// countOverUse counts an entry that comes into the tables or leaves them, or of which something else is said.
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

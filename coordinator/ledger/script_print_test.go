package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// transition describes an allocation after a change, and what is new about it.
func (s *script) transition(a *ledger.Allocation) string {
	before, known := s.last[a.ID]
	var b strings.Builder
	b.WriteString(a.State.String())
	switch a.State {
	case ledger.Waiting:
		fmt.Fprintf(&b, " until %s", since(a.WaitDeadline))
	case ledger.Reserved, ledger.Active:
		fmt.Fprintf(&b, " on %s", a.HostID)
		if a.Expires != 0 {
			fmt.Fprintf(&b, " until %s", since(a.Expires))
		}
	default:
	}
	if !known {
		fmt.Fprintf(&b, " (%s)", a.Entitled)
	} else if !a.Entitled.Equal(before.Entitled) {
		fmt.Fprintf(&b, ", entitled to %s", a.Entitled)
	}
	if a.OverLimit && !before.OverLimit {
		b.WriteString(", over the limit")
	}
	if c := a.Claimed; c != nil && before.Claimed == nil {
		fmt.Fprintf(&b, " for {%s}, claims {%s} %s", a.Labels, c.Labels, c.Entitled)
	}
	if a.Releasing && !before.Releasing {
		b.WriteString(", is being released")
	}
	if a.Stopping && !before.Stopping {
		fmt.Fprintf(&b, ", to be stopped: %s", a.StopReason)
	}
	if a.Phase() != before.Phase() {
		fmt.Fprintf(&b, ", %s", phases[a.Phase()])
		if why := a.Start.PhaseReason; why != "" {
			fmt.Fprintf(&b, " (%s)", why)
		}
	}
	if launch, was := a.Launch(), before.Launch(); launch != nil && (was == nil || len(launch.Tries) > len(was.Tries)) {
		for i := range launch.Tries {
			t := &launch.Tries[i]
			fmt.Fprintf(&b, ", try on %s (executed: %v)", t.HostID, t.Executed)
		}
	}
	switch now := overUses(a); {
	case now == overUses(&before):
	case now == "":
		b.WriteString(", within its entitlement again")
	default:
		b.WriteString(now)
	}
	if a.Exit != nil && a.Exit.Code != nil {
		fmt.Fprintf(&b, ", exit code %d", *a.Exit.Code)
	}
	if a.Exit != nil && a.Exit.Signal != 0 {
		fmt.Fprintf(&b, ", signal %d", a.Exit.Signal)
	}
	if a.Exit != nil && a.Exit.OutOfMemory {
		b.WriteString(", out of memory")
	}
	if a.Reason != "" {
		fmt.Fprintf(&b, ": %s", a.Reason)
	}
	return b.String()
}

var phases = []string{"in no phase", "starting", "ready", "failed"}

// phase takes the phase that somebody says.
func (a *arguments) phase() ledger.Phase {
	text, _ := a.option("phase")
	return ledger.Phase(max(0, slices.Index(phases, text)))
}

// overUses describes what an engine uses beyond its entitlement.
func overUses(a *ledger.Allocation) string {
	var b strings.Builder
	for _, u := range a.OverUse {
		fmt.Fprintf(&b, ", uses %s of %s %s since %s (%s)", amount(u.Dimension, u.Used), amount(u.Dimension, u.Entitled), u.Dimension, since(u.Since), u.Policy)
		if u.StopTime != 0 {
			fmt.Fprintf(&b, ", is stopped at %s", since(u.StopTime))
		}
	}
	return b.String()
}

// hostChange describes what is new about a host.
func (s *script) hostChange(h ledger.HostRecord) string {
	before, known := s.mirror.hosts[h.ID]
	switch {
	case h.Expected && h.Draining:
		return "is expected, and is to drain: " + h.MutedReason()
	case h.Expected:
		return "is expected, cordoned: " + h.MutedReason()
	case !known || before.Expected:
		return "is new: " + h.Capacity.String()
	case h.Lost && !before.Lost:
		return "is lost"
	case h.Draining && (!before.Draining || h.StopTime != before.StopTime):
		text := "drains: " + h.Reason
		if h.StopTime != 0 {
			text += ", until " + since(h.StopTime)
		}
		return text
	case h.Cordoned && !before.Cordoned:
		return "is cordoned: " + h.Reason
	case !h.Cordoned && before.Cordoned:
		return "is open again"
	case !h.Capacity.Equal(before.Capacity):
		return "has another capacity: " + h.Capacity.String()
	default:
		return "is registered again"
	}
}

// problem describes an error: its kind, and what it says.
func problem(err error) string {
	var (
		insufficient *ledger.InsufficientError
		field        *ledger.FieldError
		notFound     *ledger.NotFoundError
		state        *ledger.StateError
		conflict     *ledger.ConflictError
		denied       *ledger.DeniedError
		stale        *ledger.StaleError
		stranger     *ledger.StrangerError
		much         *ledger.TooMuchError
		outOfRange   *resource.FieldError
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &insufficient):
		text := insufficient.Reason + "\n" + shortfalls(insufficient.Shortfalls, insufficient.Filters)
		if insufficient.Returning {
			text += "  too early to say: try again\n"
		}
		return text
	case errors.As(err, &field), errors.As(err, &outOfRange):
		return "bad field: " + err.Error() + "\n"
	case errors.As(err, &notFound):
		return "not found: " + err.Error() + "\n"
	case errors.As(err, &state):
		return "wrong state: " + err.Error() + "\n"
	case errors.As(err, &conflict):
		return "conflict: " + err.Error() + "\n"
	case errors.As(err, &denied):
		return "denied: " + err.Error() + "\n"
	case errors.As(err, &stranger):
		return "stranger: " + err.Error() + "\n"
	case errors.As(err, &stale):
		return "stale: " + err.Error() + "\n"
	case errors.As(err, &much):
		return "too much: " + err.Error() + "\n"
	default:
		return "an error without a type: " + err.Error() + "\n"
	}
}

func shortfalls(list []ledger.Shortfall, filters *ledger.HostFilters) string {
	var b strings.Builder
	for _, f := range list {
		fmt.Fprintf(&b, "  %s: %s: asked for %s, has %s of %s", f.Account, f.Dimension,
			amount(f.Dimension, f.Requested), amount(f.Dimension, f.Available), amount(f.Dimension, f.Limit))
		switch {
		case f.Detail != "":
			fmt.Fprintf(&b, " (%s: %s)", f.Note, f.Detail)
		case f.Note != "":
			fmt.Fprintf(&b, " (%s)", f.Note)
		}
		if f.Note == ledger.NoteMayGrow {
			fmt.Fprintf(&b, ", to %s", amount(f.Dimension, f.Largest))
		}
		if f.Note == ledger.NoteNever && f.Largest != f.Limit {
			fmt.Fprintf(&b, ": at most %s", amount(f.Dimension, f.Largest))
		}
		b.WriteByte('\n')
	}
	if filters != nil {
		fmt.Fprintf(&b, "  %s\n", filters)
	}
	return b.String()
}

// amount writes a quantity in its dimension's usual form.
func amount(dimension string, quantity int64) string {
	switch dimension {
	case resource.Memory:
		return resource.FormatMemory(quantity)
	case resource.CPU:
		return resource.FormatCPU(quantity)
	default:
		return fmt.Sprint(quantity)
	}
}

// numbers describes an account in every dimension that it limits.
func (s *script) numbers(a *ledger.AccountInfo) string {
	var parts []string
	for dimension, limit := range a.Limit.All() {
		used, _ := a.Used.Get(dimension)
		reserved, _ := a.Reserved.Get(dimension)
		part := fmt.Sprintf("%s %s used", dimension, amount(dimension, used))
		if reserved != 0 {
			part += ", " + amount(dimension, reserved) + " reserved"
		}
		if others, _ := a.Others.Get(dimension); others != 0 {
			part += ", " + amount(dimension, others) + " by others"
		}
		part += " of " + amount(dimension, limit)
		if kept, _ := a.Protected.Get(dimension); kept > 0 {
			part += " less " + amount(dimension, kept)
		}
		parts = append(parts, part)
	}
	text := strings.Join(parts, "; ") + fmt.Sprintf("; %d hold, %d wait", a.Allocations, a.Waiting)
	if a.OverLimit {
		text += "; over its limit"
	}
	if a.HeldFor != 0 {
		text += "; held for " + s.name(a.HeldFor) + " until " + since(a.HeldUntil)
		if !a.Kept.IsZero() {
			text += ", keeps " + a.Kept.String()
		}
	}
	return text
}

// accounts lists the quota accounts.
func (s *script) accounts(*arguments) string {
	var lines []string
	s.ledger.QuotaAccounts("", func(_ string, a ledger.AccountInfo) bool {
		lines = append(lines, fmt.Sprintf("%s: %s\n", a.Name, s.numbers(&a)))
		return true
	})
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// hosts lists the hosts with their accounts.
func (s *script) hosts(*arguments) string {
	var b strings.Builder
	s.ledger.Hosts("", func(h ledger.HostInfo) bool {
		fmt.Fprintf(&b, "%s %s: %s", h.ID, h.State, s.numbers(&h.Account))
		if h.Headroom != nil {
			fmt.Fprintf(&b, "; headroom %s", resource.FormatMemory(*h.Headroom))
		}
		if !h.Engines.IsUnset() {
			fmt.Fprintf(&b, "; measured %s", h.Engines)
		}
		if h.Unavailable != "" {
			fmt.Fprintf(&b, "; closed: %s", h.Unavailable)
		}
		b.WriteByte('\n')
		return true
	})
	return b.String()
}

// allocations lists the live allocations.
func (s *script) allocations(*arguments) string {
	var b strings.Builder
	s.ledger.Allocations(0, func(a *ledger.Allocation) bool {
		s.ledger.Describe(a)
		fmt.Fprintf(&b, "%s %s", s.name(a.ID), a.State)
		if a.HostID != "" {
			fmt.Fprintf(&b, " on %s", a.HostID)
		}
		fmt.Fprintf(&b, " %s {%s}", a.Entitled, a.Labels)
		if !a.Measured.IsUnset() {
			fmt.Fprintf(&b, ", measured %s", a.Measured)
		}
		if a.OverLimit {
			b.WriteString(", over the limit")
		}
		if c := a.Claimed; c != nil {
			fmt.Fprintf(&b, ", claims {%s} %s", c.Labels, c.Entitled)
		}
		b.WriteString(overUses(a))
		if a.Reason != "" {
			fmt.Fprintf(&b, ": %s", a.Reason)
		}
		b.WriteByte('\n')
		return true
	})
	return b.String()
}

// remembered says what is known of a request id.
func (s *script) remembered(a *arguments) string {
	caller, given := a.option("as")
	if !given {
		caller = "local"
	}
	id, live, known := s.ledger.ByRequest(caller, a.word())
	switch {
	case !known:
		return "unknown\n"
	case live:
		return s.name(id) + " is live\n"
	default:
		return s.name(id) + " has ended\n"
	}
}

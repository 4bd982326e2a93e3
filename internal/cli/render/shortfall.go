package render

import (
	"fmt"
	"slices"
	"strings"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// Refusal says why there was no grant.
func Refusal(in *bursarv1.InsufficientResources) string {
	switch {
	case in.GetReason() == "vetoed":
		if slices.ContainsFunc(in.GetShortfalls(), func(s *bursarv1.Shortfall) bool { return NoteOf(s) == noteRefused }) {
			return "not enough resources: the host takes no new engines now"
		}
		return "not enough resources: the host measures less than it had reported"
	case IsNever(in):
		return "this can never fit"
	case in.GetReason() == "waited":
		return "not enough resources, and the wait is over"
	}
	return "not enough resources"
}

// IsNever reports whether the same request makes no sense later. A server that is too old for a
// verdict has a reason.
func IsNever(in *bursarv1.InsufficientResources) bool {
	if in.GetVerdict() == bursarv1.InsufficientResources_VERDICT_UNSPECIFIED {
		return in.GetReason() == "never"
	}
	return in.GetVerdict() == bursarv1.InsufficientResources_VERDICT_NEVER
}

// ShortfallLines says which account has too little, of what, and how much is missing.
func ShortfallLines(in *bursarv1.InsufficientResources) []string {
	lines := append(shortfallTexts(in.GetShortfalls()), runnersTexts(in.GetRunners())...)
	if f := in.GetFilters(); f != nil {
		lines = append(lines, FiltersText(f, in.GetShortfalls()))
	}
	return lines
}

// shortfallTexts are the texts of shortfalls; equal texts appear once.
func shortfallTexts(shortfalls []*bursarv1.Shortfall) []string {
	lines := make([]string, 0, len(shortfalls))
	for _, s := range shortfalls {
		if text := shortfallText(s); !slices.Contains(lines, text) {
			lines = append(lines, text)
		}
	}
	return lines
}

func shortfallText(s *bursarv1.Shortfall) string {
	text := AccountText(s.GetAccount())
	if closed := ClosedText(s); closed != "" {
		return text + ": " + closed
	}
	amount := func(n int64) string { return QuantityText(s.GetDimension(), n) }
	if NoteOf(s) == NoteTooSmall {
		return fmt.Sprintf("%s, the largest today: %s: asked for %s, it has %s", text, withUnit(s.GetDimension()), amount(s.GetRequested()), amount(s.GetLimit()))
	}
	if resource.OfApplications(s.GetDimension()) {
		text += ": " + applicationShortText(s)
	} else if s.GetDimension() != "" {
		text += fmt.Sprintf(": %s: asked for %s, available %s of %s, short by %s", withUnit(s.GetDimension()),
			amount(s.GetRequested()), amount(max(0, s.GetAvailable())), amount(s.GetLimit()), amount(s.GetRequested()-s.GetAvailable()))
	}
	note := NoteText(s)
	switch never := NoteOf(s) == noteNever; {
	case NoteOf(s) == noteMayGrow:
		note = "above the limit of today, which may grow to " + amount(s.GetLargest())
	case never && s.GetLargest() > s.GetLimit():
		note = "above the limit, which may grow to " + amount(s.GetLargest()) + "; it can never fit"
	case never && s.GetLimit() == 0:
		note = "there is none, it can never fit"
	}
	if note != "" {
		text += " (" + note + ")"
	}
	return text
}

// applicationShortText says which quantity a queue, or a user in it, lacks for one more
// application.
func applicationShortText(s *bursarv1.Shortfall) string {
	amount := func(n int64) string { return QuantityText(s.GetDimension(), n) }
	free, limit, asked := amount(max(0, s.GetAvailable())), amount(s.GetLimit()), amount(s.GetRequested())
	switch largest := NoteOf(s) == noteNever; {
	case largest && s.GetDimension() == resource.AMMemory:
		return fmt.Sprintf("its largest container has %s of memory; the application master needs %s", limit, asked)
	case largest && s.GetDimension() == resource.AMCPU:
		return fmt.Sprintf("its largest container has %s cores; the application master needs %s", limit, asked)
	}
	switch s.GetDimension() {
	case resource.AMMemory:
		return fmt.Sprintf("it may use %s of memory for application masters, and %s of that is free; this one needs %s", limit, free, asked)
	case resource.AMCPU:
		return fmt.Sprintf("it may use %s cores for application masters, and %s of them are free; this one needs %s", limit, free, asked)
	}
	return fmt.Sprintf("it may have %s applications, and room for %s more; this needs %s", limit, free, asked)
}

// ClosedText says why an account grants nothing at all; empty if the numbers say it.
func ClosedText(s *bursarv1.Shortfall) string {
	var text string
	switch note, isQueue := NoteOf(s), s.GetAccount().GetKind() == bursarv1.AccountKind_ACCOUNT_KIND_QUEUE; {
	case note == noteRefused:
		text = "takes no new engines"
	case note == noteCordoned:
		text = "takes no new engines: cordoned"
	case note == noteDraining:
		text = "takes no new engines: draining"
	case note == noteHealth && s.GetDetail() != "":
		text = "takes no new engines"
	case convert.HostIsAbsent(s), note == noteLabels && s.GetDetail() != "":
		return OneLine(s.GetDetail())
	case note == noteMissing && !isQueue:
		text = "has no " + s.GetDimension() + " now"
	case !isQueue:
		return ""
	case note == noteUnknown:
		text = "unknown"
	case note == noteStopped:
		text = "takes no applications"
	case note == noteHeldBack:
		return OneLine(s.GetDetail())
	case note == noteMissing:
		text = "its cluster does not have it any more"
	default:
		return ""
	}
	if s.GetDetail() != "" {
		text += ": " + OneLine(withLocalDeadline(s.GetDetail()))
	}
	return text
}

// Notes of a shortfall say more about an account than its numbers do.
const (
	noteMeasured = bursarv1.ShortfallNote_SHORTFALL_NOTE_MEASURED
	noteHeld     = bursarv1.ShortfallNote_SHORTFALL_NOTE_HELD
	noteUnknown  = bursarv1.ShortfallNote_SHORTFALL_NOTE_UNKNOWN
	notePressure = bursarv1.ShortfallNote_SHORTFALL_NOTE_PRESSURE
	noteRefused  = bursarv1.ShortfallNote_SHORTFALL_NOTE_REFUSED
	noteHealth   = bursarv1.ShortfallNote_SHORTFALL_NOTE_HEALTH
	noteNever    = bursarv1.ShortfallNote_SHORTFALL_NOTE_NEVER
	noteLabels   = bursarv1.ShortfallNote_SHORTFALL_NOTE_LABELS
	noteStopped  = bursarv1.ShortfallNote_SHORTFALL_NOTE_STOPPED
	noteMissing  = bursarv1.ShortfallNote_SHORTFALL_NOTE_MISSING
	noteCordoned = bursarv1.ShortfallNote_SHORTFALL_NOTE_CORDONED
	noteDraining = bursarv1.ShortfallNote_SHORTFALL_NOTE_DRAINING
	NoteTooSmall = bursarv1.ShortfallNote_SHORTFALL_NOTE_TOO_SMALL
	noteMayGrow  = bursarv1.ShortfallNote_SHORTFALL_NOTE_MAY_GROW
	noteHeldBack = bursarv1.ShortfallNote_SHORTFALL_NOTE_HELD_BACK
	noNote       = bursarv1.ShortfallNote_SHORTFALL_NOTE_UNSPECIFIED
)

// NoteOf is the note of a shortfall.
func NoteOf(s *bursarv1.Shortfall) bursarv1.ShortfallNote { return convert.NoteOf(s) }

// NoteText says in words why an account has too little, if its numbers do not say it.
func NoteText(s *bursarv1.Shortfall) string {
	switch NoteOf(s) {
	case noteMeasured:
		return "by what the machine measures"
	case noteHeld:
		if s.GetDetail() != "" {
			return "kept " + OneLine(s.GetDetail())
		}
		return "kept for a request that waits longer"
	case noteUnknown:
		return "no fresh measurement"
	case notePressure:
		return "under memory pressure"
	case noteHealth:
		return "takes no new engines now"
	case noteNever:
		return "above the limit, it can never fit"
	case noteLabels:
		return "it does not have the required labels"
	default:
		return s.GetNote()
	}
}

// ShortfallHint says how to get the resources. It never speaks of waiting for a request that can
// never fit, nor the other way round.
//
// explain is the command that explains the request if it is given the same flags.
func ShortfallHint(in *bursarv1.InsufficientResources, explain string) string {
	unsure := in.GetVerdict() == bursarv1.InsufficientResources_VERDICT_UNSPECIFIED
	if IsNever(in) || unsure && slices.ContainsFunc(in.GetShortfalls(), func(s *bursarv1.Shortfall) bool { return NoteOf(s) == noteNever }) {
		return NeverHint(in) + "; `" + explain + "` with the same flags shows every account"
	}
	wait, until := awaited(in)
	switch isOver := in.GetReason() == "waited"; {
	case isOver && until == "":
		return "a longer --wait, or `bursar allocations` to see who holds what"
	case isOver && slices.ContainsFunc(in.GetShortfalls(), convert.HostIsAbsent):
		return "a longer --wait, or a host that is there: `bursar hosts` shows those of today"
	case isOver:
		return "a longer --wait waits until " + until
	case until == "":
		return "--wait 30s waits until it is there; `" + explain + "` with the same flags shows every account"
	}
	return "--wait " + wait + " waits until " + until
}

// awaited says how long it makes sense to wait for the missing resources, until which event, and
// where to see that; empty: until others give back their resources.
func awaited(in *bursarv1.InsufficientResources) (wait, until string) {
	for _, s := range in.GetShortfalls() {
		switch note := NoteOf(s); {
		case convert.HostIsAbsent(s):
			return "1h", "it is there; `bursar hosts` shows those of today"
		case note == NoteTooSmall:
			return "1h", "a host that large is there; `bursar hosts` shows those of today"
		case note == noteCordoned || note == noteDraining:
			return "30s", "the host is uncordoned; `bursar hosts` shows those that take engines"
		case note == noteRefused || note == noteHealth && ClosedText(s) != "":
			return "30s", "the host takes engines again; `bursar hosts` shows those that do"
		case s.GetAccount().GetKind() == bursarv1.AccountKind_ACCOUNT_KIND_QUEUE:
			if wait, until := awaitedInQueue(s); until != "" {
				return wait, until
			}
		}
	}
	if noneAsAsked(in.GetFilters()) {
		return "1h", "such a host is there; `bursar hosts --show-labels` shows those of today"
	}
	ofMachine := func(s *bursarv1.Shortfall) bool { return NoteOf(s) == noteMeasured || NoteOf(s) == notePressure }
	if list := in.GetShortfalls(); len(list) > 0 && !slices.ContainsFunc(list, func(s *bursarv1.Shortfall) bool { return !ofMachine(s) }) {
		return "30s", "programs on the host give memory back, which need not be engines; `bursar hosts " +
			Printable(list[0].GetAccount().GetLabels()["host"]) + "` shows what it measures"
	}
	return "", ""
}

// awaitedInQueue is awaited for a queue that grants nothing, or is too small today.
func awaitedInQueue(s *bursarv1.Shortfall) (wait, until string) {
	switch note := NoteOf(s); {
	case note == noteUnknown:
		return "30s", "the cluster can be read again; `bursar providers` shows how that goes"
	case note == noteMayGrow:
		return "1h", "the cluster has grown; `bursar queues` shows what the limits are today"
	case note == noteHeldBack:
		return "30m", "the cluster starts them; `bursar queues` shows what it holds back"
	case ClosedText(s) != "":
		return "30s", "the queue takes applications again; `bursar queues` shows those that do"
	}
	return "", ""
}

// NeverHint names the size that would fit, and the limit. A server that is too old for a verdict
// does not name that size.
func NeverHint(in *bursarv1.InsufficientResources) string {
	var least []*bursarv1.Shortfall // the smallest of each dimension, external parts apart
	for _, s := range in.GetShortfalls() {
		if NoteOf(s) != noteNever {
			continue
		}
		i := slices.IndexFunc(least, func(t *bursarv1.Shortfall) bool {
			return t.GetDimension() == s.GetDimension() && isOfParts(t.GetAccount()) == isOfParts(s.GetAccount())
		})
		switch {
		case i < 0:
			least = append(least, s)
		case s.GetLargest() < least[i].GetLargest():
			least[i] = s
		}
	}
	if len(least) == 0 || in.GetVerdict() == bursarv1.InsufficientResources_VERDICT_UNSPECIFIED {
		return "ask for less, or have the limit raised"
	}
	raise := "" // a host's own size is no limit that somebody has set
	parts := make([]string, len(least))
	for i, s := range least {
		most := "no " + s.GetDimension()
		if n := s.GetLargest(); n > 0 {
			most = "at most " + AmountText(s.GetDimension(), n)
		}
		parts[i] = most + " (" + AccountText(s.GetAccount()) + ")"
		if s.GetAccount().GetKind() != bursarv1.AccountKind_ACCOUNT_KIND_HOST {
			raise = ", or have the limit raised"
		}
	}
	return "ask for " + strings.Join(parts, " and ") + raise
}

// isOfParts reports whether external parts count in an account: it is a queue, or a quota for
// parts.
func isOfParts(name *bursarv1.AccountName) bool {
	return name.GetKind() == bursarv1.AccountKind_ACCOUNT_KIND_QUEUE || name.GetExternal() != nil
}

// FiltersText says at which step of the search hosts were removed. Shortfalls say whether those
// without room in the ledger are too small.
func FiltersText(f *bursarv1.HostFilters, shortfalls []*bursarv1.Shortfall) string {
	withoutRoom := "without room in the ledger"
	if slices.ContainsFunc(shortfalls, func(s *bursarv1.Shortfall) bool { return NoteOf(s) == NoteTooSmall }) {
		withoutRoom = "too small, or without room in the ledger"
		if f.GetTotal() == 1 {
			withoutRoom = "too small"
		}
	}
	if f.GetTotal() == 0 && f.GetFleet() == 0 {
		return "there is no host yet"
	}
	if noneAsAsked(f) {
		text := fmt.Sprintf("hosts: none of %d is as asked for yet (--require, --avoid)", max(f.GetTotal(), f.GetFleet()))
		if unmet := OneLine(f.GetUnmet()); unmet != "" {
			text += ": " + unmet
		}
		return text
	}
	parts := []string{fmt.Sprintf("hosts: %d of %d fit", f.GetFit(), f.GetTotal())}
	if f.GetFleet() > 0 {
		parts[0] += fmt.Sprintf(", which are a sample of %d", f.GetFleet())
	}
	for _, step := range []struct {
		n    int64
		what string
	}{
		{f.GetLabels(), "by labels"},
		{f.GetHealth() - closedHosts(f), "not healthy"},
		{f.GetMeasurement(), "closed because of what they measure"},
		{f.GetBooks(), withoutRoom},
		{f.GetHeadroom(), "short of measured memory"},
		{f.GetHeld(), "kept for a request that waits longer"},
	} {
		if step.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", step.n, step.what))
		}
	}
	for _, c := range f.GetClosed() {
		parts = append(parts, closedHostsText(c))
	}
	return strings.Join(parts, ", ")
}

// noneAsAsked reports whether labels, and what the request avoids, removed every host. A sample of
// a large fleet says so only with the conditions that no host meets.
func noneAsAsked(f *bursarv1.HostFilters) bool {
	return f != nil && (f.GetUnmet() != "" || f.GetLabels() == f.GetTotal() && f.GetFleet() == 0)
}

// closedHosts counts the hosts whose reason is told.
func closedHosts(f *bursarv1.HostFilters) (n int64) {
	for _, c := range f.GetClosed() {
		n += c.GetHosts()
	}
	return n
}

func closedHostsText(c *bursarv1.ClosedHosts) string {
	what, reason := "cordoned", OneLine(withLocalDeadline(c.GetReason()))
	switch c.GetNote() {
	case noteCordoned:
	case noteDraining:
		what = "draining"
	default:
		return fmt.Sprintf("%d %s", c.GetHosts(), reason)
	}
	if reason != "" {
		what += " (" + reason + ")"
	}
	return fmt.Sprintf("%d %s", c.GetHosts(), what)
}

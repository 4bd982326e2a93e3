package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/yamlfile"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// report says on stderr what went wrong: one line, then what helps. journald gets all of it as an
// error: `journalctl -p err` of a unit that does not start says why.
func (c *cli) report(err error) {
	var text bytes.Buffer
	c.describe(&text, err)
	if !toJournal(c.err) {
		_, _ = harmless{to: c.err}.Write(text.Bytes())
		return
	}
	for line := range bytes.Lines(text.Bytes()) {
		// Stderr itself has failed: nobody can be told.
		_, _ = prefixed{harmless{to: c.err}, priorityError}.Write(line)
	}
}

// describe writes what went wrong, and what can be done about it.
func (c *cli) describe(out io.Writer, err error) {
	var exit *exitError
	if err == nil || errors.As(err, &exit) && exit.err == nil {
		return
	}
	sayf := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", printables(args)...) }
	if _, isUsage := errors.AsType[*usageError](err); isUsage {
		sayf("bursar: %s", oneLine(err.Error()))
		return
	}
	text := c.message(err)
	sayf("bursar: %s", text)
	if hint := whereToLook(text); hint != "" {
		sayf("hint: %s", hint)
	}
	if insufficient, ok := client.Insufficient(err); ok {
		for _, line := range shortfallLines(insufficient) {
			sayf("  %s", line)
		}
		sayf("hint: %s", shortfallHint(insufficient))
	}
	for _, v := range client.Violations(err) {
		sayf("  %s: %s", fieldPath(v.GetField()), v.GetMessage())
	}
	if file, ok := errors.AsType[*yamlfile.Error](err); ok {
		fmt.Fprint(out, file.Excerpt())
	}
	if _, leaderless := errors.AsType[*leaderlessError](err); leaderless && connect.IsWireError(err) {
		// A coordinator that stands by has said why, which may also be that the leader does not
		// let it in.
		sayf("hint: none of those that answer leads; if a leader has just ended, another one leads in some seconds")
	}
	if c.byDefault && nothingThere(err) {
		sayf("hint: `systemctl status bursar-agent bursar-coordinator` if these are services, `bursar dev` starts everything on this machine; " +
			"--addr or BURSAR_ADDR says where a coordinator is, --agent or BURSAR_AGENT where an agent is")
	}
}

// whereToLook says in which listing to find the thing that a message says does not exist; empty
// for other messages.
func whereToLook(message string) string {
	what, isMissing := strings.CutPrefix(message, "no such ")
	what, _, _ = strings.Cut(what, ":")
	switch {
	case !isMissing:
		return ""
	case what == "queue":
		return "`bursar queues` shows the queues that are known, with their partitions where there are several"
	case what == "cluster", what == "provider", what == "kind of cluster":
		return "`bursar providers` shows the clusters that are configured; a queue is KIND:CLUSTER:QUEUE"
	}
	return ""
}

// nothingThere reports whether there is no server at an address at all. A server that does not
// trust the caller, or that has answered, is there.
func nothingThere(err error) bool {
	_, trust := errors.AsType[*credential.TrustError](err)
	return client.Unavailable(err) && !connect.IsWireError(err) && !trust
}

// leaderlessError is a call that nobody could answer although coordinators run: none of them
// leads.
type leaderlessError struct{ err error }

func (e *leaderlessError) Error() string {
	return "nobody leads at the moment: try again in some seconds"
}

func (e *leaderlessError) Unwrap() error { return e.err }

func (c *cli) sayf(format string, args ...any) {
	fmt.Fprintf(harmless{to: c.err}, format+"\n", printables(args)...)
}

// message returns an error in one line.
func (c *cli) message(err error) string {
	var call *connect.Error
	_, leaderless := errors.AsType[*leaderlessError](err)
	if leaderless && !connect.IsWireError(err) || !errors.As(err, &call) {
		return oneLine(err.Error())
	}
	prefix := ""
	var run *client.RunError
	if errors.As(err, &run) && run.Phase != client.PhaseAllocate {
		prefix = string(run.Phase) + ": "
	}
	insufficient, short := client.Insufficient(err)
	switch {
	case short && client.Unavailable(err):
		return prefix + c.server() + ": too early to say, as not all that it needs is known; try again in some seconds"
	case short:
		return prefix + refusal(insufficient)
	case client.Unavailable(err) && !connect.IsWireError(err):
		return prefix + c.nobodyAnswers(call)
	case client.Unavailable(err):
		return prefix + c.server() + ": " + oneLine(call.Message())
	}
	if field, ok := client.InvalidField(err); ok {
		return prefix + fmt.Sprintf("%s: %q: want %s", field.GetField(), field.GetValue(), field.GetWant())
	}
	if len(client.Violations(err)) > 0 {
		return prefix + "the request is not valid"
	}
	return prefix + oneLine(call.Message())
}

// inTime is the reason if the time was over.
const inTime = "no answer in time"

// nobodyAnswers says whom the command has called, and why nobody answered.
func (c *cli) nobodyAnswers(err *connect.Error) string {
	reason := c.reason(err)
	text := fmt.Sprintf("nobody answers at %s: %s", c.server(), reason)
	if reason == inTime && filepath.IsAbs(c.server()) {
		text = "the agent at " + c.server() + " gives no answer in time: it may have no coordinator that answers"
	}
	if other := c.warnings.String(); other != "" {
		text += ": " + oneLine(other)
	}
	return text
}

// reason is why there was no answer: the system's word if there is one. If one end does not trust
// the other, it says what to do.
func (c *cli) reason(err error) string {
	if trust, ok := errors.AsType[*credential.TrustError](err); ok {
		cause := trust.Err
		if call, ok := errors.AsType[*url.Error](cause); ok {
			cause = call.Err
		}
		return oneLine(inFlags(cause.Error() + ": " + trust.Advice))
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if call, ok := errors.AsType[*connect.Error](err); ok && call.Code() != connect.CodeDeadlineExceeded {
		return oneLine(call.Message())
	}
	return inTime
}

// server names the server of the last call.
func (c *cli) server() string {
	if len(c.clients) == 0 {
		return "the server"
	}
	return c.clients[len(c.clients)-1].Target()
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// refusal says why there was no grant.
func refusal(in *bursarv1.InsufficientResources) string {
	switch {
	case in.GetReason() == "vetoed":
		if slices.ContainsFunc(in.GetShortfalls(), func(s *bursarv1.Shortfall) bool { return noteOf(s) == noteRefused }) {
			return "not enough resources: the host takes no new engines now"
		}
		return "not enough resources: the host measures less than it had reported"
	case isNever(in):
		return "this can never fit"
	case in.GetReason() == "waited":
		return "not enough resources, and the wait is over"
	}
	return "not enough resources"
}

// isNever reports whether the same request makes no sense later. A server that is too old for a
// verdict has a reason.
func isNever(in *bursarv1.InsufficientResources) bool {
	if in.GetVerdict() == bursarv1.InsufficientResources_VERDICT_UNSPECIFIED {
		return in.GetReason() == "never"
	}
	return in.GetVerdict() == bursarv1.InsufficientResources_VERDICT_NEVER
}

// shortfallLines says which account has too little, of what, and how much is missing.
func shortfallLines(in *bursarv1.InsufficientResources) []string {
	lines := shortfallTexts(in.GetShortfalls())
	if f := in.GetFilters(); f != nil {
		lines = append(lines, filtersText(f))
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
	text := accountText(s.GetAccount())
	if closed := closedText(s); closed != "" {
		return text + ": " + closed
	}
	amount := func(n int64) string { return quantityText(s.GetDimension(), n) }
	if noteOf(s) == noteTooSmall {
		return fmt.Sprintf("%s, the largest today: %s: asked for %s, it has %s", text, s.GetDimension(), amount(s.GetRequested()), amount(s.GetLimit()))
	}
	if s.GetDimension() != "" {
		text += fmt.Sprintf(": %s: asked for %s, available %s of %s, short by %s", s.GetDimension(),
			amount(s.GetRequested()), amount(max(0, s.GetAvailable())), amount(s.GetLimit()), amount(s.GetRequested()-s.GetAvailable()))
	}
	note := noteText(s)
	if noteOf(s) == noteNever && s.GetLimit() == 0 {
		note = "there is none, it can never fit"
	}
	if note != "" {
		text += " (" + note + ")"
	}
	return text
}

// closedText says why an account grants nothing at all; empty if the numbers say what is missing.
func closedText(s *bursarv1.Shortfall) string {
	var text string
	switch note, isQueue := noteOf(s), s.GetAccount().GetKind() == bursarv1.AccountKind_ACCOUNT_KIND_QUEUE; {
	case note == noteRefused:
		text = "takes no new engines"
	case note == noteCordoned:
		text = "takes no new engines: cordoned"
	case note == noteDraining:
		text = "takes no new engines: draining"
	case note == noteHealth && s.GetDetail() != "":
		text = "takes no new engines"
	case note == noteMissing && !isQueue:
		text = "has no " + s.GetDimension() + " now"
	case !isQueue:
		return ""
	case note == noteUnknown:
		text = "unknown"
	case note == noteStopped:
		text = "takes no applications"
	case note == noteMissing:
		text = "its cluster does not have it any more"
	default:
		return ""
	}
	if s.GetDetail() != "" {
		text += ": " + oneLine(s.GetDetail())
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
	noteTooSmall = bursarv1.ShortfallNote_SHORTFALL_NOTE_TOO_SMALL
	noNote       = bursarv1.ShortfallNote_SHORTFALL_NOTE_UNSPECIFIED
)

// noteOf is the note of a shortfall. A server that is older than the codes has set the text alone.
func noteOf(s *bursarv1.Shortfall) bursarv1.ShortfallNote {
	if code := s.GetNoteCode(); code != noNote {
		return code
	}
	switch s.GetNote() {
	case "measured":
		return noteMeasured
	case "held":
		return noteHeld
	case "unknown":
		return noteUnknown
	case "pressure":
		return notePressure
	case "refused":
		return noteRefused
	case "health":
		return noteHealth
	case "never":
		return noteNever
	case "labels":
		return noteLabels
	case "stopped":
		return noteStopped
	case "missing":
		return noteMissing
	}
	return noNote
}

// noteText says in words why an account has too little, if its numbers do not say it.
func noteText(s *bursarv1.Shortfall) string {
	switch noteOf(s) {
	case noteMeasured:
		return "by what the machine measures"
	case noteHeld:
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

// shortfallHint says what helps. It never speaks of waiting for what can never fit, nor the other
// way round.
func shortfallHint(in *bursarv1.InsufficientResources) string {
	unsure := in.GetVerdict() == bursarv1.InsufficientResources_VERDICT_UNSPECIFIED
	if isNever(in) || unsure && slices.ContainsFunc(in.GetShortfalls(), func(s *bursarv1.Shortfall) bool { return noteOf(s) == noteNever }) {
		return neverHint(in)
	}
	for _, s := range in.GetShortfalls() {
		switch note := noteOf(s); {
		case note == noteTooSmall:
			return "--wait 1h waits until a host that large is there; `bursar hosts` shows those of today"
		case note == noteCordoned || note == noteDraining:
			return "--wait 30s waits until the host is uncordoned; `bursar hosts` shows those that take engines"
		case note == noteRefused || note == noteHealth && closedText(s) != "":
			return "--wait 30s waits until the host takes engines again; `bursar hosts` shows those that do"
		case closedText(s) != "" && note == noteUnknown:
			return "--wait 30s waits until the cluster can be read again; `bursar providers` shows how that goes"
		case closedText(s) != "" && s.GetAccount().GetKind() == bursarv1.AccountKind_ACCOUNT_KIND_QUEUE:
			return "--wait 30s waits until the queue takes applications again; `bursar queues` shows those that do"
		}
	}
	if f := in.GetFilters(); f != nil && f.GetLabels() == f.GetTotal() {
		return "--wait 1h waits until such a host is there; `bursar hosts` shows those of today"
	}
	if in.GetReason() == "waited" {
		return "a longer --wait, or `bursar allocations` to see who holds what"
	}
	return "--wait 30s waits until it is there; `bursar explain` with the same flags shows every account"
}

// neverHint says what would fit, and what limits it. A server that is too old for a verdict does
// not say what would fit.
func neverHint(in *bursarv1.InsufficientResources) string {
	var least []*bursarv1.Shortfall // the smallest of each dimension, queues apart
	for _, s := range in.GetShortfalls() {
		if noteOf(s) != noteNever {
			continue
		}
		i := slices.IndexFunc(least, func(t *bursarv1.Shortfall) bool {
			const queue = bursarv1.AccountKind_ACCOUNT_KIND_QUEUE
			return t.GetDimension() == s.GetDimension() && (t.GetAccount().GetKind() == queue) == (s.GetAccount().GetKind() == queue)
		})
		switch {
		case i < 0:
			least = append(least, s)
		case s.GetLargest() < least[i].GetLargest():
			least[i] = s
		}
	}
	const rest = "; `bursar explain` with the same flags shows every account"
	if len(least) == 0 || in.GetVerdict() == bursarv1.InsufficientResources_VERDICT_UNSPECIFIED {
		return "ask for less, or have the limit raised" + rest
	}
	parts := make([]string, len(least))
	for i, s := range least {
		most := "no " + s.GetDimension()
		if n := s.GetLargest(); n > 0 {
			most = fmt.Sprintf("at most %s of %s", quantityText(s.GetDimension(), n), s.GetDimension())
		}
		parts[i] = most + " (" + accountText(s.GetAccount()) + ")"
	}
	return "ask for " + strings.Join(parts, " and ") + ", or have the limit raised" + rest
}

func filtersText(f *bursarv1.HostFilters) string {
	if f.GetTotal() == 0 {
		return "there is no host yet"
	}
	if f.GetLabels() == f.GetTotal() {
		return fmt.Sprintf("hosts: none of %d has the required labels yet", f.GetTotal())
	}
	parts := []string{fmt.Sprintf("hosts: %d of %d fit", f.GetFit(), f.GetTotal())}
	for _, step := range []struct {
		n    int64
		what string
	}{
		{f.GetLabels(), "by labels"},
		{f.GetHealth() - closedHosts(f), "not healthy"},
		{f.GetMeasurement(), "closed by what they measure"},
		{f.GetBooks(), "without room by the books"},
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

// closedHosts counts the hosts whose reason is told.
func closedHosts(f *bursarv1.HostFilters) (n int64) {
	for _, c := range f.GetClosed() {
		n += c.GetHosts()
	}
	return n
}

func closedHostsText(c *bursarv1.ClosedHosts) string {
	what, reason := "", oneLine(c.GetReason())
	switch c.GetNote() {
	case noteCordoned:
		what = "cordoned"
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

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"

	"connectrpc.com/connect"
	"github.com/spf13/pflag"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/yamlfile"
)

// reporter says what went wrong, in the words of the command line and of the last call.
type reporter struct {
	*render.Printer

	// flags are those of the command that runs; nil before.
	flags *pflag.FlagSet
	// asked is the client of the last call; nil: there was none.
	asked *client.Client
	// byDefault is set if nobody has said where the last server is.
	byDefault bool
	// ofAgent is set if the last server is an agent.
	ofAgent bool
	// warnings are what went wrong apart from the calls.
	warnings warningLog
}

func newReporter(p *render.Printer) *reporter { return &reporter{Printer: p} }

// report says on stderr what went wrong: one line, then what helps. journald gets all of it as an
// error: `journalctl -p err` of a unit that does not start says why.
func (r *reporter) report(err error) {
	if r.IsJSON() {
		_, _ = render.Harmless{To: r.Err, JSON: true}.Write(r.describeJSON(err))
		return
	}
	var text bytes.Buffer
	r.describe(&text, err)
	if !toJournal(r.Err) {
		_, _ = render.Harmless{To: r.Err}.Write(text.Bytes())
		return
	}
	for line := range bytes.Lines(text.Bytes()) {
		// Stderr itself has failed: nobody can be told.
		_, _ = prefixed{render.Harmless{To: r.Err}, priorityError}.Write(line)
	}
}

// describe writes what went wrong, and what can be done about it.
func (r *reporter) describe(out io.Writer, err error) {
	var exit *exitError
	if err == nil || errors.As(err, &exit) && exit.err == nil {
		return
	}
	sayf := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", render.Printables(args)...) }
	if _, isUsage := errors.AsType[*usageError](err); isUsage {
		sayf("bursar: %s", render.OneLine(err.Error()))
		return
	}
	text := r.message(err)
	sayf("bursar: %s", text)
	if hint := whereToLook(text); hint != "" {
		sayf("hint: %s", hint)
	}
	hinted, hasHint := errors.AsType[*hintedError](err)
	if insufficient, ok := client.Insufficient(err); ok {
		for _, line := range render.ShortfallLines(insufficient) {
			sayf("  %s", line)
		}
		if !hasHint {
			sayf("hint: %s", render.ShortfallHint(insufficient, r.explainCommandLine()))
		}
	}
	if hasHint {
		sayf("hint: %s", hinted.hint)
	}
	for _, v := range client.Violations(err) {
		sayf("  %s: %s", r.typedAs(render.FieldPath(v.GetField())), v.GetMessage())
	}
	if file, ok := errors.AsType[*yamlfile.Error](err); ok {
		fmt.Fprint(out, file.Excerpt())
	}
	if _, leaderless := errors.AsType[*leaderlessError](err); leaderless && connect.IsWireError(err) {
		// A coordinator that stands by has said why, which may also be that the leader does not
		// let it in.
		sayf("hint: none of those that answer leads; if a leader has just ended, another one leads in some seconds")
	}
	if r.byDefault && nothingThere(err) {
		sayf("hint: `systemctl status bursar-agent bursar-coordinator` if these are services, `bursar dev` starts everything on this machine; " +
			"--addr or BURSAR_ADDR says where a coordinator is, --agent or BURSAR_AGENT where an agent is")
	}
}

// explainCommandLine is how to ask the server of the last call what it thinks of a request. Explain
// asks an agent only if it is told to.
func (r *reporter) explainCommandLine() string {
	if r.ofAgent && (r.flags == nil || !r.flags.Changed("agent")) {
		return "bursar explain --agent " + r.server()
	}
	return "bursar explain"
}

// hintedError is an error for which a command knows better what would help than the error itself.
type hintedError struct {
	err  error
	hint string
}

func (e *hintedError) Error() string { return e.err.Error() }

func (e *hintedError) Unwrap() error { return e.err }

// whereToLook says in which listing to find the thing that a message says does not exist; empty
// for other messages.
func whereToLook(message string) string {
	what, isMissing := strings.CutPrefix(message, "no such ")
	what, _, _ = strings.Cut(what, ":")
	switch {
	case !isMissing:
		return ""
	case what == "queue", what == "queue until it is used":
		return "`bursar queues` shows the queues that are known, with their partitions if there are several"
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

// message returns an error in one line.
func (r *reporter) message(err error) string {
	if about, ok := errors.AsType[*aboutError](err); ok {
		return about.name + ": " + r.message(about.err)
	}
	if text, ok := errors.AsType[*notUTF8Error](err); ok {
		return text.Error()
	}
	var call *connect.Error
	_, leaderless := errors.AsType[*leaderlessError](err)
	if leaderless && !connect.IsWireError(err) || !errors.As(err, &call) {
		return render.OneLine(err.Error())
	}
	prefix := ""
	var run *client.RunError
	if errors.As(err, &run) && run.Phase != client.PhaseAllocate {
		prefix = string(run.Phase) + ": "
	}
	insufficient, short := client.Insufficient(err)
	switch {
	case short && client.Unavailable(err):
		return prefix + r.server() + ": too early to say, as not all that it needs is known; try again in some seconds"
	case short:
		return prefix + render.Refusal(insufficient)
	case client.Unavailable(err) && !connect.IsWireError(err):
		return prefix + r.nobodyAnswers(call)
	case client.Unavailable(err) && r.ofAgent:
		return prefix + "the agent at " + r.server() + ": " + render.OneLine(r.inTyped(call.Message()))
	case client.Unavailable(err):
		return prefix + r.server() + ": " + render.OneLine(r.inTyped(call.Message()))
	case isForeign(err):
		return prefix + r.server() + " answers, but it is no " + r.kindOfServer() + ", or one that is too old for this command: " + render.OneLine(call.Message())
	}
	if field, ok := client.InvalidField(err); ok {
		name := r.typedAs(field.GetField())
		if name == field.GetField() {
			name += ":"
		}
		return prefix + fmt.Sprintf("%s %q: want %s", name, field.GetValue(), field.GetWant())
	}
	if len(client.Violations(err)) > 0 {
		return prefix + "the request is not valid"
	}
	return prefix + render.OneLine(r.inTyped(call.Message()))
}

// kindOfServer is what the last call was for.
func (r *reporter) kindOfServer() string {
	if r.ofAgent {
		return "agent"
	}
	return "coordinator"
}

// isForeign reports whether the answer is that of a web server that does not know the API. The
// library turns its status or its kind of content into an error.
func isForeign(err error) bool {
	call, ok := errors.AsType[*connect.Error](err)
	if !ok || connect.IsWireError(err) {
		return false
	}
	switch call.Code() { //nolint:exhaustive // the others are from a server of ours, or from none
	case connect.CodeUnimplemented, connect.CodeUnknown, connect.CodeInternal:
		status, _, _ := strings.Cut(call.Message(), " ")
		return len(status) == 3 && isNumber(status) || strings.HasPrefix(call.Message(), "invalid content-type")
	}
	return false
}

// inTime is the reason if the time was over.
const inTime = "no answer in time"

// nobodyAnswers says whom the command has called, and why nobody answered.
func (r *reporter) nobodyAnswers(err *connect.Error) string {
	reason := r.reason(err)
	text := fmt.Sprintf("nobody answers at %s: %s", r.server(), reason)
	switch ofAgent := filepath.IsAbs(r.server()); {
	case ofAgent && reason == inTime:
		text = "the agent at " + r.server() + " gives no answer in time: it may have no coordinator that answers"
	case ofAgent && hungUp(err):
		text = "the agent at " + r.server() + " closed the connection: it restarts, or has too many: try again (" + reason + ")"
	}
	if other := r.warnings.String(); other != "" {
		text += ": " + render.OneLine(other)
	}
	return text
}

// hungUp reports whether a connection was there, and ended before an answer came.
func hungUp(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// reason is why there was no answer: the system's word if there is one. If one end does not trust
// the other, it says what to do.
func (r *reporter) reason(err error) string {
	if trust, ok := errors.AsType[*credential.TrustError](err); ok {
		cause := trust.Err
		if call, ok := errors.AsType[*url.Error](cause); ok {
			cause = call.Err
		}
		return render.OneLine(inFlags(cause.Error() + ": " + trust.Advice))
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if call, ok := errors.AsType[*connect.Error](err); ok && call.Code() != connect.CodeDeadlineExceeded {
		return render.OneLine(call.Message())
	}
	return inTime
}

// server names the server of the last call.
func (r *reporter) server() string {
	if r.asked == nil {
		return "the server"
	}
	return r.asked.Target()
}

package failure

import (
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

// Reporter tells the user of faults, in the words of the command line and of the last call.
type Reporter struct {
	*render.Printer

	// Flags are those of the command that runs; nil before.
	Flags *pflag.FlagSet
	// Asked is the client of the last call; nil: there was none.
	Asked *client.Client
	// ByDefault is set if nobody has said where the last server is.
	ByDefault bool
	// OfAgent is set if the last server is an agent.
	OfAgent bool
	// Warnings are the faults apart from the calls.
	Warnings warningLog
}

// NewReporter returns a reporter that writes where a printer does.
func NewReporter(p *render.Printer) *Reporter { return &Reporter{Printer: p} }

// describe writes a fault and its remedies.
func (r *Reporter) describe(out io.Writer, err error) {
	var exit *ExitError
	if err == nil || errors.As(err, &exit) && exit.Err == nil {
		return
	}
	sayf := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", render.Printables(args)...) }
	if _, isUsage := errors.AsType[*UsageError](err); isUsage {
		sayf("bursar: %s", render.OneLine(err.Error()))
		return
	}
	text := r.Message(err)
	sayf("bursar: %s", text)
	if hint := whereToLook(text); hint != "" {
		sayf("hint: %s", hint)
	}
	hinted, hasHint := errors.AsType[*HintedError](err)
	if insufficient, ok := client.Insufficient(err); ok {
		for _, line := range render.ShortfallLines(insufficient) {
			sayf("  %s", line)
		}
		if !hasHint {
			sayf("hint: %s", render.ShortfallHint(insufficient, r.explainCommandLine()))
		}
	}
	if hasHint {
		sayf("hint: %s", hinted.Hint)
	}
	for _, v := range client.Violations(err) {
		sayf("  %s: %s", r.withValue(render.FieldPath(v.GetField()), false), v.GetMessage())
	}
	if file, ok := errors.AsType[*yamlfile.Error](err); ok {
		fmt.Fprint(out, file.Excerpt())
	}
	if r.OfAgent && isOfAnotherHost(err) {
		sayf("hint: %s is the agent of this host and knows its allocations alone; BURSAR_ADDR (and BURSAR_TOKEN_FILE for your own token) asks a coordinator, for all hosts", r.Server())
	}
	if _, leaderless := errors.AsType[*LeaderlessError](err); leaderless && connect.IsWireError(err) {
		// A coordinator that stands by has said why, which may also be that the leader does not
		// let it in.
		sayf("hint: none of those that answer leads; if a leader has just ended, another one leads in some seconds")
	}
	if r.ByDefault && nothingThere(err) {
		sayf("hint: `systemctl status bursar-agent bursar-coordinator` if these are services, `bursar dev` starts everything on this machine; " +
			"--addr or BURSAR_ADDR says where a coordinator is, --agent or BURSAR_AGENT where an agent is")
	}
}

// explainCommandLine is the command line that asks the server of the last call for its view of a
// request. It names an agent: BURSAR_ADDR would have Explain ask another server.
func (r *Reporter) explainCommandLine() string {
	if r.OfAgent && (r.Flags == nil || !r.Flags.Changed("agent")) {
		return "bursar explain --agent " + r.Server()
	}
	return "bursar explain"
}

// Message returns an error in one line.
func (r *Reporter) Message(err error) string {
	if about, ok := errors.AsType[*aboutError](err); ok {
		return about.name + ": " + r.Message(about.err)
	}
	if text, ok := errors.AsType[*NotUTF8Error](err); ok {
		return text.Error()
	}
	var call *connect.Error
	_, leaderless := errors.AsType[*LeaderlessError](err)
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
		return prefix + r.Server() + ": too early to say, as not all that it needs is known; try again in some seconds"
	case short:
		return prefix + render.Refusal(insufficient)
	case client.Unavailable(err) && !connect.IsWireError(err):
		return prefix + r.nobodyAnswers(call)
	case client.Unavailable(err) && r.OfAgent:
		return prefix + "the agent at " + r.Server() + ": " + r.said(call)
	case client.Unavailable(err):
		return prefix + r.Server() + ": " + r.said(call)
	case isForeign(err):
		return prefix + r.Server() + " answers, but it is no " + r.kindOfServer() + ", or one that is too old for this command: " + r.said(call)
	}
	if field, ok := client.InvalidField(err); ok {
		name := r.TypedAs(field.GetField())
		if name == field.GetField() {
			name += ":"
		}
		return prefix + fmt.Sprintf("%s %q: want %s", name, field.GetValue(), field.GetWant())
	}
	if len(client.Violations(err)) > 0 {
		return prefix + "the request is not valid"
	}
	return prefix + r.said(call)
}

// said is the message of a server about a call, in one line. An empty message leaves the code.
func (r *Reporter) said(call *connect.Error) string {
	text := render.OneLine(r.inTyped(call.Message()))
	if strings.TrimSpace(text) == "" {
		return "the server refuses with " + call.Code().String() + " and gives no reason"
	}
	return text
}

// kindOfServer is the kind of server that the last call was for.
func (r *Reporter) kindOfServer() string {
	if r.OfAgent {
		return "agent"
	}
	return "coordinator"
}

// nobodyAnswers names the server that the command has called, and the reason why it did not
// answer.
func (r *Reporter) nobodyAnswers(err *connect.Error) string {
	reason := r.Reason(err)
	text := fmt.Sprintf("nobody answers at %s: %s", r.Server(), reason)
	switch ofAgent := filepath.IsAbs(r.Server()); {
	case ofAgent && reason == inTime:
		text = "the agent at " + r.Server() + " gives no answer in time: it may have no coordinator that answers"
	case ofAgent && hungUp(err):
		text = "the agent at " + r.Server() + " closed the connection: it restarts, or has too many: try again (" + reason + ")"
	}
	if other := r.Warnings.String(); other != "" {
		text += ": " + render.OneLine(other)
	}
	return text
}

// Reason is why there was no answer: the system's word if there is one. If one end does not trust
// the other, reason names the remedy.
func (r *Reporter) Reason(err error) string {
	if trust, ok := errors.AsType[*credential.TrustError](err); ok {
		cause := trust.Err
		if call, ok := errors.AsType[*url.Error](cause); ok {
			cause = call.Err
		}
		return render.OneLine(InFlags(cause.Error() + ": " + trust.Advice))
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if call, ok := errors.AsType[*connect.Error](err); ok && call.Code() != connect.CodeDeadlineExceeded {
		return render.OneLine(call.Message())
	}
	return inTime
}

// Server names the server of the last call.
func (r *Reporter) Server() string {
	if r.Asked == nil {
		return "the server"
	}
	return r.Asked.Target()
}

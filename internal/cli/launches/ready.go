package launches

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// readyFlags say when an engine is ready.
type readyFlags struct {
	port                int32
	file, line, command string
}

// maxLine is the longest expression of the contract, in bytes.
const maxLine = 1024

func (r *readyFlags) add(flags *pflag.FlagSet, prefix string) {
	flags.Int32Var(&r.port, "ready-port", 0, prefix+"it is ready when it listens on this TCP port")
	flags.StringVar(&r.file, "ready-file", "", prefix+"it is ready when there is something at this path, which begins at --dir if it does not begin with /")
	flags.StringVar(&r.line, "ready-line", "", prefix+"it is ready when it has written a line that matches this regular expression (RE2)")
	flags.StringVar(&r.command, "ready-command", "", prefix+"it is ready when this command, which sh -c runs on the host, exits with 0")
}

// names lists the flags of which an engine may have one.
func names() []string { return []string{"ready-port", "ready-file", "ready-line", "ready-command"} }

// readiness is the readiness of a launch; nil: it is ready as soon as it runs.
func (r *readyFlags) readiness(flags *pflag.FlagSet, within time.Duration) (*bursarv1.Readiness, error) {
	var set []string
	for _, name := range names() {
		if flags.Changed(name) {
			set = append(set, "--"+name)
		}
	}
	switch {
	case len(set) > 1:
		return nil, failure.Usagef("%s: want one of them", strings.Join(set, " and "))
	case len(set) == 0 && within != 0:
		return nil, failure.Usagef("--ready-within %s: want --ready-port, --ready-file, --ready-line or --ready-command next to it", cmdline.Hours(within))
	case len(set) == 0:
		return nil, nil //nolint:nilnil // no readiness is nil
	}
	ready := &bursarv1.Readiness{}
	if err := cmdline.WithinBounds("--ready-within", within, ready, "within"); err != nil {
		return nil, err
	}
	if within > 0 {
		ready.Within = durationpb.New(within)
	}
	switch set[0] {
	case "--ready-port":
		if r.port < 1 || r.port > 65535 {
			return nil, failure.Usagef("--ready-port %d: want a port from 1 to 65535", r.port)
		}
		ready.Check = &bursarv1.Readiness_Port{Port: r.port}
	case "--ready-file":
		ready.Check = &bursarv1.Readiness_File{File: r.file}
	case "--ready-line":
		if err := checkLine(r.line); err != nil {
			return nil, err
		}
		ready.Check = &bursarv1.Readiness_Line{Line: &bursarv1.LineCheck{Pattern: r.line}}
	default:
		ready.Check = &bursarv1.Readiness_Command{Command: &bursarv1.CommandCheck{Command: []string{"/bin/sh", "-c", r.command}}}
	}
	return ready, nil
}

// checkLine refuses an expression that the agent would refuse.
func checkLine(pattern string) error {
	if len(pattern) > maxLine {
		return failure.Usagef("--ready-line: has %d bytes: want at most %d", len(pattern), maxLine)
	}
	_, err := regexp.Compile(pattern)
	if err == nil {
		return nil
	}
	why := err.Error()
	if wrong, ok := errors.AsType[*syntax.Error](err); ok {
		why = string(wrong.Code)
		if wrong.Expr != pattern && wrong.Expr != "" {
			why += fmt.Sprintf(" in %q", wrong.Expr)
		}
	}
	return failure.Usagef("--ready-line %q: %s: want a regular expression of RE2", pattern, why)
}

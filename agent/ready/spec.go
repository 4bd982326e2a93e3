package ready

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/look"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// DefaultWithin is the time that an engine has to become ready.
	DefaultWithin = 5 * time.Minute
	// MaxWithin is the longest time that it may have.
	MaxWithin = 24 * time.Hour
	// The longest time between two looks. A command costs its user more than the others.
	defaultInterval = time.Second
	commandInterval = 5 * time.Second
	// The bounds of Spec.Interval.
	leastInterval = 100 * time.Millisecond
	mostInterval  = time.Minute
	// lookLimit is how long one look of a helper may take.
	lookLimit = 10 * time.Second
	// maxPath and maxCommand bound a path, and all arguments of a command, in bytes.
	maxPath    = 4096
	maxCommand = 1 << 20
)

// The streams of a Line.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Spec is a check as it was asked for. Exactly one of Port, File, Line and Command is set.
type Spec struct {
	// Port is a TCP port, 1 to 65535.
	Port int32
	// File is a path, absolute or from the engine's working directory.
	File string
	Line *Line
	// Command is a program and its arguments, as those of an engine. They may be secret.
	Command []string
	// Within is the time that the engine has, from its start. 0: DefaultWithin.
	Within time.Duration
	// Interval is the longest time between two looks, 100 ms to 1 minute. The first looks come
	// faster. 0: 1 s; 5 s for a command.
	Interval time.Duration
}

// Line is a line of output that is waited for.
type Line struct {
	// Pattern is a regular expression: see look.Pattern.
	Pattern string
	// Stream is Stdout, Stderr or "", for both.
	Stream string
}

// Check is the part of a Spec that an agent has to store. It has no secrets.
type Check = launch.Check

// FromProto returns the check of a request. The error is a *launch.FieldError.
func FromProto(r *bursarv1.Readiness) (Spec, error) {
	s := Spec{Port: r.GetPort(), File: r.GetFile(), Command: r.GetCommand().GetCommand()}
	if line := r.GetLine(); line != nil {
		s.Line = &Line{Pattern: line.GetPattern()}
		switch stream := line.GetStream(); stream {
		case bursarv1.OutputStream_OUTPUT_STREAM_UNSPECIFIED:
		case bursarv1.OutputStream_OUTPUT_STREAM_STDOUT:
			s.Line.Stream = Stdout
		case bursarv1.OutputStream_OUTPUT_STREAM_STDERR:
			s.Line.Stream = Stderr
		default:
			return Spec{}, wrong("line.stream", stream.String(), "OUTPUT_STREAM_STDOUT, OUTPUT_STREAM_STDERR or none", errors.New("is no stream"))
		}
	}
	switch r.GetCheck().(type) {
	case *bursarv1.Readiness_Port:
		if s.Port == 0 {
			return Spec{}, portError(0)
		}
	case *bursarv1.Readiness_File:
		if s.File == "" {
			return Spec{}, wrong("file", "", "a path", errors.New("is empty"))
		}
	case *bursarv1.Readiness_Command:
		if len(s.Command) == 0 {
			return Spec{}, wrong("command.command", "", "a program and its arguments", errors.New("is empty"))
		}
	}
	if within := r.GetWithin(); within != nil {
		s.Within = within.AsDuration()
		if !within.IsValid() || s.Within <= 0 {
			return Spec{}, withinError(s.Within)
		}
	}
	return s, s.Check()
}

// Check returns a *launch.FieldError if the Spec cannot be meant.
func (s Spec) Check() error {
	kinds := 0
	for _, set := range []bool{s.Port != 0, s.File != "", s.Line != nil, len(s.Command) > 0} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return wrong("check", strconv.Itoa(kinds)+" checks", "one of port, file, line and command", errors.New("is not one"))
	case s.Port < 0 || s.Port > 65535:
		return portError(s.Port)
	case s.Within < 0 || s.Within > MaxWithin:
		return withinError(s.Within)
	case s.Interval != 0 && (s.Interval < leastInterval || s.Interval > mostInterval):
		return wrong("interval", s.Interval.String(), fmt.Sprintf("%s to %s", leastInterval, mostInterval), errors.New("is out of bounds"))
	case s.Line != nil:
		return s.Line.check()
	case len(s.Command) > 0:
		return checkCommand(s.Command)
	}
	return checkPath(s.File)
}

func (l Line) check() error {
	if l.Stream != "" && l.Stream != Stdout && l.Stream != Stderr {
		return wrong("line.stream", l.Stream, "stdout, stderr or none", errors.New("is no stream"))
	}
	if _, err := look.Pattern(l.Pattern); err != nil {
		return wrong("line.pattern", shown(l.Pattern), fmt.Sprintf("a regular expression (RE2) of at most %d bytes that can match one line", look.MaxPattern), err)
	}
	return nil
}

func checkPath(file string) error {
	switch {
	case len(file) > maxPath:
		return wrong("file", shown(file), fmt.Sprintf("a path of at most %d bytes", maxPath), fmt.Errorf("has %d bytes", len(file)))
	case strings.ContainsRune(file, 0):
		return wrong("file", shown(file), "a path without zero bytes", errors.New("has a zero byte"))
	}
	return nil
}

// checkCommand never shows arguments.
func checkCommand(command []string) error {
	const want = "a program, as an absolute path or as a name in the PATH of environment, and its arguments"
	size := 0
	for _, argument := range command {
		size += len(argument)
		if strings.ContainsRune(argument, 0) {
			return wrong("command.command", shown(command[0]), want, errors.New("has a zero byte"))
		}
	}
	switch program := command[0]; {
	case program == "":
		return wrong("command.command", "", want, errors.New("names no program"))
	case strings.Contains(program, "/") && !path.IsAbs(program):
		return wrong("command.command", shown(program), want, errors.New("is a relative path"))
	case size > maxCommand:
		return wrong("command.command", shown(program), fmt.Sprintf("at most %d bytes", maxCommand), fmt.Errorf("has %d bytes", size))
	}
	return nil
}

// Stored is the part that an agent has to store, with the defaults filled in.
func (s Spec) Stored() Check {
	c := Check{Port: s.Port, Within: s.within(), Interval: s.interval()}
	switch {
	case s.File != "":
		c.What = "file"
	case s.Line != nil:
		c.What = "line"
	case len(s.Command) > 0:
		c.What = "command"
	}
	return c
}

// Look is the part of the check that the engine's keeper makes, for launch.Request.Look. Nil: it
// makes none. directory is the engine's working directory.
func (s Spec) Look(directory string) *keeper.Look {
	l := &keeper.Look{Interval: s.interval(), Limit: lookLimit, Within: s.within()}
	switch {
	case path.IsAbs(s.File):
		l.File = s.File
	case s.File != "":
		l.File = directory + "/" + s.File // not path.Join: a link may be before a ".."
	case s.Line != nil && s.Line.Stream == "":
		l.Line = &keeper.LineLook{Pattern: s.Line.Pattern, Streams: []string{Stdout, Stderr}}
	case s.Line != nil:
		l.Line = &keeper.LineLook{Pattern: s.Line.Pattern, Streams: []string{s.Line.Stream}}
	case len(s.Command) > 0:
		l.Command = s.Command
	default:
		return nil
	}
	return l
}

func (s Spec) within() time.Duration {
	if s.Within == 0 {
		return DefaultWithin
	}
	return s.Within
}

func (s Spec) interval() time.Duration {
	switch {
	case s.Interval != 0:
		return s.Interval
	case len(s.Command) > 0:
		return commandInterval
	}
	return defaultInterval
}

// wrong names a field of a Readiness.
func wrong(field, value, want string, err error) error {
	return &launch.FieldError{Field: "readiness." + field, Value: value, Want: want, Err: err}
}

func portError(port int32) error {
	return wrong("port", strconv.Itoa(int(port)), "1 to 65535", errors.New("is no TCP port"))
}

func withinError(within time.Duration) error {
	return wrong("within", within.String(), fmt.Sprintf("more than 0 and at most %s; none is %s", MaxWithin, DefaultWithin), errors.New("is out of bounds"))
}

// shown is the beginning of a value.
func shown(value string) string {
	const most = 100
	return strings.ToValidUTF8(value[:min(len(value), most)], "?")
}

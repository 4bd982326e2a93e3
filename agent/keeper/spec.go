package keeper

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	// Confirmed is the line by which the agent lets an engine go on without it.
	Confirmed = "confirmed"
	// MaxSpec bounds the line of a Spec, in bytes. A request to an agent has at most 1 MiB, of
	// which escaping makes six times as much.
	MaxSpec = 8 << 20
	// MaxStderrLines bounds Spec.StderrLines.
	MaxStderrLines = 100
)

// The fields of a Spec, as Started names them. They are those of a LaunchRequest.
const (
	FieldCommand   = "command[0]"
	FieldDirectory = "working_directory"
	FieldLogs      = "logs.directory"
	// FieldScript and FieldRequiredFiles are those of a LaunchSpec.
	FieldScript        = "script"
	FieldRequiredFiles = "required_files"
)

// Spec describes the engine to start.
type Spec struct {
	// ID is the id of the allocation. In the process table it shows the purpose of the process.
	ID string `json:"id"`
	// Command is the program and its arguments. The program is an absolute path, or a name without
	// a slash that is looked for in the PATH of Environment.
	Command []string `json:"command"`
	// Script, if not empty, is executed in place of the program, whose field then has the script's
	// name.
	Script []byte `json:"script,omitempty"`
	// RequiredFiles are absolute paths that must exist before the engine starts.
	RequiredFiles []string `json:"required_files,omitempty"`
	// Unchangeable refuses a program, or a command of Look, that the user of the keeper can change.
	// Then the path tells the agent which program is executed.
	Unchangeable bool `json:"unchangeable,omitempty"`
	// Environment is the whole environment, as KEY=value.
	Environment []string `json:"environment"`
	// WorkingDirectory is absolute.
	WorkingDirectory string `json:"working_directory"`
	Log              Log    `json:"log"`
	// StderrLines is how many of the last lines of standard error the Record carries.
	StderrLines int `json:"stderr_lines"`
	// Hold makes the engine wait until the agent has confirmed it. A second Started then says
	// whether the engine has begun.
	Hold bool `json:"hold,omitempty"`
	// OwnCgroup says that the keeper's cgroup holds only this engine, so that every process that
	// the kernel killed there was the engine's.
	OwnCgroup bool `json:"own_cgroup,omitempty"`
	// Look describes the helper's check whether the engine is ready. Nil means no check.
	Look *Look `json:"look,omitempty"`
}

// Log says where output goes: into the files stdout and stderr.
type Log struct {
	// Directory is absolute, and there. Own says that it is the engine's alone: the keeper locks
	// it, so that programs that clean up by age leave it.
	Directory string `json:"directory"`
	Own       bool   `json:"own,omitempty"`
	// MaxBytes is how large a file grows before it becomes stdout.1; above 0.
	MaxBytes int64 `json:"max_bytes"`
	// Keep is how many older files of each there are at most.
	Keep int `json:"keep"`
}

// Started says that the engine runs, or why not.
type Started struct {
	PID int32 `json:"pid,omitempty"`
	// StartTime is in clock ticks after boot (field 22 of /proc/PID/stat).
	StartTime uint64 `json:"start_time,omitempty"`

	// Field and Value are the invalid field of the Spec and its value, and Want describes a valid
	// one. Field is empty if the Spec is valid.
	Field string `json:"field,omitempty"`
	Value string `json:"value,omitempty"`
	Want  string `json:"want,omitempty"`
	// Error is set if the engine does not run.
	Error string `json:"error,omitempty"`
}

// Exit is how a process ended: by a code, or by a signal.
type Exit struct {
	Code   *int32 `json:"code,omitempty"`
	Signal int32  `json:"signal,omitempty"`
}

// Record is how an engine ended: with its last process. One with Left is of an engine that goes on.
type Record struct {
	// Exit is how the main process ended.
	Exit Exit `json:"exit"`
	// Time is when the last process ended; with Left, when the main process did.
	Time time.Time `json:"time"`
	// Left says that the main process has ended and that others of the engine live on.
	Left bool `json:"left,omitempty"`
	// LeaderTime is when the main process had ended, Last is how the last process ended, and Killed
	// how many processes signals had ended between the two, the latest by KilledBy. Nil and zero if
	// the engine ended with its main process.
	LeaderTime *time.Time `json:"leader_time,omitempty"`
	Last       *Exit      `json:"last,omitempty"`
	Killed     int        `json:"killed,omitempty"`
	KilledBy   int32      `json:"killed_by,omitempty"`
	// OutOfMemory says that the kernel killed it for lack of memory.
	OutOfMemory bool `json:"out_of_memory,omitempty"`
	// Stderr are the last lines of its standard error, in their order, printable, at most
	// Spec.StderrLines.
	Stderr []string `json:"stderr,omitempty"`
	// DroppedBytes is how much of its output could not be written.
	DroppedBytes int64 `json:"dropped_bytes,omitempty"`
	// Use is on a line of its own before the record, because an agent of an older version takes no
	// record with a field that it does not know.
	Use Use `json:"-"`
}

// Use is the kernel's data about the resource use of a process that has ended, and of the processes
// that it has waited for.
type Use struct {
	// ProcessBytes is the most that the largest of them had in RAM, mapped files included; 0: not
	// known.
	ProcessBytes int64 `json:"process_bytes,omitempty"`
	CPUMicros    int64 `json:"cpu_micros,omitempty"`
}

// CPUTime is the processor time of all of them; 0: not known.
func (u Use) CPUTime() time.Duration { return time.Duration(u.CPUMicros) * time.Microsecond }

// valid reports whether the figures can be: the user of an engine may have written them.
func (u Use) valid() bool {
	const most = 1 << 52 // bytes, or more than a century
	return u.ProcessBytes >= 0 && u.ProcessBytes <= most && u.CPUMicros >= 0 && u.CPUMicros <= most
}

// useLine is the line of a Use.
type useLine struct {
	Use *Use `json:"use"`
}

var errNoRecord = errors.New("no record of an end")

// DecodeSpec reads and checks a line.
func DecodeSpec(line []byte) (Spec, error) {
	var s Spec
	if err := decode(line, &s); err != nil {
		return Spec{}, fmt.Errorf("spec: %w", err)
	}
	switch {
	case len(s.Command) == 0 || s.Command[0] == "":
		return Spec{}, errors.New("spec: no command")
	case !path.IsAbs(s.WorkingDirectory):
		return Spec{}, fmt.Errorf("spec: working directory %q is not absolute", s.WorkingDirectory)
	case !path.IsAbs(s.Log.Directory) || s.Log.MaxBytes <= 0 || s.Log.Keep < 0:
		return Spec{}, fmt.Errorf("spec: log %+v: want an absolute directory, more than 0 bytes, and no fewer than 0 kept", s.Log)
	case s.StderrLines < 0 || s.StderrLines > MaxStderrLines:
		return Spec{}, fmt.Errorf("spec: %d lines of stderr: want 0 to %d", s.StderrLines, MaxStderrLines)
	}
	for _, file := range s.RequiredFiles {
		if !path.IsAbs(file) {
			return Spec{}, fmt.Errorf("spec: required file %q is not absolute", file)
		}
	}
	for _, text := range [][]string{s.Command, s.Environment, s.RequiredFiles, {s.WorkingDirectory, s.Log.Directory}} {
		if strings.ContainsRune(strings.Join(text, ""), 0) {
			return Spec{}, errors.New("spec: a zero byte")
		}
	}
	if s.Look != nil {
		return s, s.Look.check()
	}
	return s, nil
}

// DecodeStarted reads a line.
func DecodeStarted(line []byte) (Started, error) {
	var s Started
	if err := decode(line, &s); err != nil {
		return Started{}, fmt.Errorf("started: %w", err)
	}
	if s.Error == "" && (s.PID <= 1 || s.StartTime == 0) {
		return Started{}, fmt.Errorf("started: pid %d, start time %d", s.PID, s.StartTime)
	}
	// The user may have changed the keeper before it could protect itself: people and logs must
	// only be shown text.
	for _, text := range []*string{&s.Field, &s.Value, &s.Want, &s.Error} {
		if *text != "" {
			*text = cmp.Or(bounded(*text), "?")
		}
	}
	return s, nil
}

// bounded is the printable part of a text, and no more of it than a keeper remembers of an
// engine's output.
func bounded(text string) string {
	text = printable(text)
	return strings.ToValidUTF8(text[:min(len(text), tailBytes)], "")
}

// DecodeRecord returns the last Record of a file's content, which may be one with Left. What stands
// before it, or was cut short, is passed over. Its lines are made printable, and empty ones are
// left out. The error says that there is none.
func DecodeRecord(content []byte) (Record, error) {
	lines := bytes.Split(content, []byte("\n"))
	for i := len(lines) - 2; i >= 0; i-- { // what is behind the last line break is not whole
		var r Record
		if decode(lines[i], &r) == nil && r.valid() {
			for at := range r.Stderr {
				r.Stderr[at] = bounded(r.Stderr[at])
			}
			r.Stderr = slices.DeleteFunc(r.Stderr, func(line string) bool { return line == "" })
			var before useLine
			if i > 0 && decode(lines[i-1], &before) == nil && before.Use != nil && before.Use.valid() {
				r.Use = *before.Use
			}
			return r, nil
		}
	}
	return Record{}, errNoRecord
}

func (r Record) valid() bool {
	return !r.Time.IsZero() && r.DroppedBytes >= 0 && len(r.Stderr) <= MaxStderrLines && r.Exit.valid() &&
		(r.Last == nil || r.Last.valid()) && (r.LeaderTime == nil || !r.LeaderTime.IsZero()) &&
		r.Killed >= 0 && (r.Killed == 0 || Exit{Signal: r.KilledBy}.valid())
}

func (e Exit) valid() bool {
	if e.Code != nil {
		return e.Signal == 0 && *e.Code >= 0 && *e.Code <= 255
	}
	return e.Signal > 0 && e.Signal <= 64
}

// Encode returns a value as the line that is sent.
func Encode(value any) ([]byte, error) {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return line.Bytes(), nil
}

func decode(line []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err //nolint:wrapcheck // the callers say what it is
	}
	if len(bytes.TrimSpace(line[decoder.InputOffset():])) > 0 {
		return errors.New("something follows it")
	}
	return nil
}

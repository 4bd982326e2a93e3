package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	// LookMode is the first argument of the program if it is a helper: it looks whether an engine
	// is ready. The second one is the allocation.
	LookMode = "look"
	// MaxLookReason bounds Looked.Reason, in bytes.
	MaxLookReason = 512
	// MaxLooks is how many reasons a helper writes into the record at most. The record stays short
	// then, however often the reason changes.
	MaxLooks = 32
)

// The bytes that a helper writes to descriptor 1: a look begins, or has ended.
const (
	LookBegins = 'b'
	LookEnded  = 'e'
)

// Look is a check of an engine that a helper makes: as the engine's user, in its cgroup, from the
// moment that the engine begins. Exactly one of File, Line and Command is set.
type Look struct {
	// File is an absolute path.
	File string    `json:"file,omitempty"`
	Line *LineLook `json:"line,omitempty"`
	// Command is as that of Spec.
	Command []string `json:"command,omitempty"`
	// Interval is the longest time between two looks, Limit how long one look may take, and Within
	// when the last one begins, counted from the first.
	Interval time.Duration `json:"interval"`
	Limit    time.Duration `json:"limit"`
	Within   time.Duration `json:"within"`
}

// LineLook looks for a line of output.
type LineLook struct {
	// Pattern is a regular expression, as package regexp has it.
	Pattern string `json:"pattern"`
	// Streams are the files of Log.Directory: "stdout", "stderr" or both.
	Streams []string `json:"streams"`
}

// HelperSpec is the line that a helper reads from descriptor 0. The helper ends when that ends.
type HelperSpec struct {
	Look             Look     `json:"look"`
	Environment      []string `json:"environment,omitempty"`
	WorkingDirectory string   `json:"working_directory"`
	LogDirectory     string   `json:"log_directory"`
	// Logs are the files of LogDirectory as they were when the engine began.
	Logs []LogStart `json:"logs,omitempty"`
}

// LogStart is where the output of an engine begins: its log may go on where that of another engine
// has ended.
type LogStart struct {
	Name  string `json:"name"`
	Inode uint64 `json:"inode"`
	Size  int64  `json:"size"`
}

// Looked is the result of a look. A helper appends it to the record, if it is new.
type Looked struct {
	Ready bool `json:"ready,omitempty"`
	// Reason says why the engine is not ready.
	Reason string    `json:"reason,omitempty"`
	Time   time.Time `json:"time"`
}

// lookedLine is the line of a Looked in a record.
type lookedLine struct {
	Looked *Looked `json:"looked"`
}

// EncodeLooked returns the line of a record.
func EncodeLooked(l Looked) ([]byte, error) {
	l.Reason = strings.ToValidUTF8(l.Reason[:min(len(l.Reason), MaxLookReason)], "")
	return Encode(lookedLine{&l})
}

// DecodeLooked returns the last Looked of a record's content, with a reason that is printable. The
// engine's user may have written any of it. False: there is none.
func DecodeLooked(content []byte) (Looked, bool) {
	lines := bytes.Split(content, []byte("\n"))
	for i := len(lines) - 2; i >= 0; i-- { // the text after the last line break is not whole
		var found lookedLine
		if !bytes.HasPrefix(lines[i], []byte(`{"looked":`)) || decode(lines[i], &found) != nil || found.Looked == nil || found.Looked.Time.IsZero() {
			continue
		}
		l := *found.Looked
		l.Reason = bounded(l.Reason)
		l.Reason = strings.ToValidUTF8(l.Reason[:min(len(l.Reason), MaxLookReason)], "")
		return l, true
	}
	return Looked{}, false
}

// DecodeHelperSpec reads a line, and checks it.
func DecodeHelperSpec(line []byte) (HelperSpec, error) {
	var s HelperSpec
	if err := decode(line, &s); err != nil {
		return HelperSpec{}, fmt.Errorf("look: %w", err)
	}
	return s, s.Look.check()
}

// check finds faults that the agent's own checks cannot have let pass.
func (l Look) check() error {
	kinds := 0
	for _, set := range []bool{l.File != "", l.Line != nil, len(l.Command) > 0} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return fmt.Errorf("look: %d checks: want one of file, line and command", kinds)
	case l.File != "" && !path.IsAbs(l.File):
		return fmt.Errorf("look: file %q is not absolute", l.File)
	case len(l.Command) > 0 && l.Command[0] == "":
		return errors.New("look: no command")
	case l.Interval <= 0 || l.Limit <= 0 || l.Within <= 0:
		return fmt.Errorf("look: interval %s, limit %s, within %s: want more than 0", l.Interval, l.Limit, l.Within)
	case strings.ContainsRune(l.File+strings.Join(l.Command, ""), 0):
		return errors.New("look: a zero byte")
	}
	if l.Line != nil {
		for _, stream := range l.Line.Streams {
			if !slices.Contains([]string{"stdout", "stderr"}, stream) {
				return fmt.Errorf("look: stream %q: want stdout or stderr", stream)
			}
		}
		if len(l.Line.Streams) == 0 {
			return errors.New("look: no stream")
		}
	}
	return nil
}

package cgroupfs

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// ErrMalformed says that a kernel file does not have its documented format.
var ErrMalformed = errors.New("malformed")

// MountInfo holds the fields of a line of /proc/PID/mountinfo that this project uses.
type MountInfo struct {
	// Root is the folder of the file system that is mounted at Point. Both are unescaped, and need
	// not be absolute paths.
	Root, Point string
	// Type is the type of the file system: "cgroup2", "ext4".
	Type string
	// Options are the options of the mount, SuperOptions the options of the file system. Both are
	// separated by commas.
	Options, SuperOptions string
}

// MountInfos goes through a /proc/PID/mountinfo (proc_pid_mountinfo(5)), line by line: ID PARENT
// DEVICE ROOT POINT OPTIONS [FIELD…] - TYPE SOURCE OPTIONS. ErrMalformed: this line cannot be
// parsed; later lines may be valid.
func MountInfos(data []byte) iter.Seq2[MountInfo, error] {
	return func(yield func(MountInfo, error) bool) {
		for line := range bytes.Lines(data) {
			line = bytes.TrimRight(line, "\n")
			if len(line) == 0 {
				continue
			}
			if !yield(mountInfo(string(line))) {
				return
			}
		}
	}
}

func mountInfo(line string) (MountInfo, error) {
	before, after, found := strings.Cut(line, " - ")
	left, right := strings.Split(before, " "), strings.Split(after, " ")
	if !found || len(left) < 6 || len(right) < 3 {
		return MountInfo{}, fmt.Errorf("%w mountinfo line %q", ErrMalformed, line)
	}
	return MountInfo{
		Root: unescape(left[3]), Point: unescape(left[4]), Type: right[0], Options: left[5], SuperOptions: right[2],
	}, nil
}

// unescape undoes mountinfo's octal escapes of space, tab, newline and backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if code, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

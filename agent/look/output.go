package look

import (
	"context"
	"regexp"
	"strings"

	"github.com/bursar/bursar/agent/keeper"
)

// output is the output of an engine, in which a line is looked for.
type output struct {
	pattern string
	streams []*stream
}

func newOutput(spec keeper.HelperSpec) (*output, error) {
	look := *spec.Look.Line
	whole, err := Pattern(look.Pattern)
	if err != nil {
		return nil, err
	}
	cut, err := inner(look.Pattern)
	if err != nil {
		return nil, err
	}
	o := &output{pattern: look.Pattern}
	for _, name := range look.Streams {
		s := &stream{path: spec.LogDirectory + "/" + name, name: name, lines: lines{whole: whole, cut: cut}, fd: -1}
		for _, start := range spec.Logs {
			if start.Name == name {
				s.start = start
			}
		}
		o.streams = append(o.streams, s)
	}
	return o, nil
}

func (o *output) look(ctx context.Context) (bool, string) {
	var reasons []string
	for _, s := range o.streams {
		found, err := s.look(ctx)
		if found {
			return true, ""
		}
		if err != nil {
			reasons = append(reasons, s.name+": "+err.Error())
		}
	}
	if len(reasons) > 0 {
		return false, strings.Join(reasons, "; ")
	}
	return false, "no line matches " + o.pattern
}

// mostOfLine is how much of a line is compared: its last bytes.
const mostOfLine = 64 << 10

// lines compares a stream with a pattern, line by line. The zero value without the expressions is
// at the beginning of a line.
type lines struct {
	whole, cut *regexp.Regexp // of lines, and of lines whose beginning is lost
	part       []byte         // of the last line, which has no line break yet
	lost       bool           // the beginning of part is lost
}

// skip forgets the last line: the next bytes do not follow it.
func (l *lines) skip() { l.part, l.lost = l.part[:0], true }

// restart forgets the last line: another one begins.
func (l *lines) restart() { l.part, l.lost = l.part[:0], false }

// write takes the next part of the stream, and reports whether a line in it matches.
func (l *lines) write(p []byte) bool {
	for {
		at := indexLineBreak(p)
		if at < 0 {
			l.add(p)
			return false
		}
		l.add(p[:at])
		found := l.matches()
		l.restart()
		if found {
			return true
		}
		p = p[at+1:]
	}
}

// add makes the last line longer.
func (l *lines) add(p []byte) {
	if over := len(p) - mostOfLine; over > 0 {
		p, l.part, l.lost = p[over:], l.part[:0], true
	}
	if over := len(l.part) + len(p) - mostOfLine; over > 0 {
		l.part, l.lost = l.part[:copy(l.part, l.part[over:])], true
	}
	l.part = append(l.part, p...)
}

// matches compares the last line as it is now.
func (l *lines) matches() bool {
	line := l.part
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if l.lost {
		return l.cut.Match(line)
	}
	return l.whole.Match(line)
}

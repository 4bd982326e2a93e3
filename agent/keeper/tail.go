package keeper

import (
	"strconv"
	"strings"
)

// tailBytes is the size of the end of the output that is kept.
const tailBytes = 8 << 10

// tail keeps the end of the data written to it. The zero value is empty.
type tail struct {
	ring    [tailBytes]byte
	written int64
}

func (t *tail) write(p []byte) {
	if skipped := len(p) - tailBytes; skipped > 0 {
		p = p[skipped:]
		t.written += int64(skipped)
	}
	for len(p) > 0 {
		n := copy(t.ring[t.written%tailBytes:], p)
		t.written += int64(n)
		p = p[n:]
	}
}

// lines returns the last lines, at most most, printable and without empty ones. If the kept data
// has no line break, the first line may lack its beginning.
func (t *tail) lines(most int) []string {
	text := string(t.ring[:min(t.written, tailBytes)])
	if at := t.written % tailBytes; t.written > tailBytes {
		text = string(t.ring[at:]) + string(t.ring[:at])
		if _, whole, found := strings.Cut(text, "\n"); found && strings.TrimSpace(whole) != "" {
			text = whole
		}
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = printable(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines[max(0, len(lines)-most):]
}

// printable removes terminal control sequences, and replaces bytes that are no text by one mark.
func printable(line string) string {
	if at := strings.LastIndexByte(strings.TrimRight(line, "\r"), '\r'); at >= 0 {
		line = line[at+1:] // a progress bar is kept as it is shown last
	}
	line = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case strconv.IsPrint(r):
			return r
		default:
			return -1
		}
	}, strings.ToValidUTF8(line, "\uFFFD"))
	return strings.TrimSpace(line)
}

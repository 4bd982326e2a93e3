package reading

import (
	"bytes"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/output/offsets"
)

// MaxTailScan is how many bytes of the end are looked through for lines.
const MaxTailScan = 64 << 20

// tail is where the last lines before an offset begin. Bytes that are gone are no lines.
func (r *Reader) tail(lines int, end int64) (int64, error) {
	scan := tailScan{lines: lines, room: MaxTailScan, begin: end, final: -1, buffer: make([]byte, MaxData)}
	for i, s := range slices.Backward(r.side.Segments) {
		next := end
		if i+1 < len(r.side.Segments) {
			next = min(end, r.side.Segments[i+1].Offset)
		}
		if s.Gone {
			continue
		}
		fd, err := r.in.find(s.Inode, r.side.keep())
		if is(err, Gone) {
			continue
		}
		if err != nil {
			return 0, err
		}
		scan.segment(fd, s, next)
		_ = unix.Close(fd)
		if scan.lines == 0 || scan.room <= 0 {
			break
		}
	}
	return scan.begin, nil
}

// tailScan looks for line breaks, from the end on.
type tailScan struct {
	lines int   // that are wanted yet
	room  int64 // bytes that may be read yet
	// begin is the offset from which on there are the lines that were found, and final the one
	// behind the last byte that is there; -1: none was seen yet.
	begin, final int64
	buffer       []byte
}

func (t *tailScan) segment(fd int, s offsets.Segment, next int64) {
	length, _ := room(s, s.Offset, next)
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) == nil {
		length = min(length, stat.Size-s.Position)
	}
	if length > 0 && t.final < 0 {
		t.final = s.Offset + length
	}
	for length > 0 && t.lines > 0 && t.room > 0 {
		part := t.buffer[:min(length, int64(len(t.buffer)))]
		length -= int64(len(part))
		n, err := pread(fd, part, s.Position+length)
		if err != nil || n < len(part) {
			return // it shrinks
		}
		t.room -= int64(n)
		t.begin = s.Offset + length
		t.part(part, t.begin)
	}
}

// part looks through bytes with their offset.
func (t *tailScan) part(p []byte, offset int64) {
	for t.lines > 0 {
		i := bytes.LastIndexByte(p, '\n')
		if i < 0 {
			return
		}
		p = p[:i]
		behind := offset + int64(i) + 1
		if behind == t.final {
			continue // it ends the last line
		}
		if t.lines--; t.lines == 0 {
			t.begin = behind
		}
	}
}

package offsets

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"
)

// DamagedError says that no keeper has written a line of the file.
type DamagedError struct {
	Line int // from 1 on
	Err  error
}

func (e *DamagedError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the fault of the line.
func (e *DamagedError) Unwrap() error { return e.Err }

// LogFile is a log file. Two files are the same if their Inode and First are: an inode of a file
// that was removed is soon that of a new one.
type LogFile struct {
	Inode uint64
	First int64 // offset
}

// Segment is output that lies in one piece in one file. It reaches to the next Segment's Offset at
// most, and to EndPosition; the rest until the next Offset is gone.
type Segment struct {
	LogFile

	Offset, Position int64
	// EndPosition is where something else begins in the file; -1: nothing does.
	EndPosition int64
	// Gone says that nothing of it is left.
	Gone bool
}

// Index is the content of a file of offsets. The zero value is empty.
type Index struct {
	// ID is the allocation, and Keep how many older files there are at most. Both are of the
	// header.
	ID   string
	Keep int
	// Segments are in the order of their Offset.
	Segments []Segment
	// Ended says that the stream has ended, with Total bytes.
	Ended bool
	Total int64
	// Shared says that other programs write into the files.
	Shared bool

	times []timed
	files map[uint64]*pieces
	lines int
	rest  string
	last  int64 // offset
}

// timed is when a byte was written.
type timed struct {
	offset int64
	time   time.Time
}

// pieces are the segments of a file that have bytes of it, by their index, in the order of their
// positions.
type pieces struct {
	LogFile

	stack []int
}

var (
	errHeader = errors.New("want \"" + magic + "\", an allocation and the number of older files")
	errOrder  = errors.New("want an offset that is not below the one before")
	errFile   = errors.New("want an inode that a line f has named")
	errLong   = errors.New("is too long")
)

// Add reads the next bytes of the file. A line that is not whole yet waits for its rest. The error
// is a *DamagedError.
func (x *Index) Add(text []byte) error {
	x.rest += string(text)
	for {
		line, rest, whole := strings.Cut(x.rest, "\n")
		if !whole {
			if len(x.rest) > maxLine {
				return &DamagedError{x.lines + 1, errLong}
			}
			return nil
		}
		x.rest = rest
		x.lines++
		if err := x.addLine(line); err != nil {
			return &DamagedError{x.lines, err}
		}
	}
}

func (x *Index) addLine(line string) error {
	if len(line) > maxLine {
		return errLong
	}
	if x.lines == 1 {
		words := strings.Split(line, " ")
		if len(words) != 4 || words[0]+" "+words[1] != magic {
			return errHeader
		}
		keep, err := strconv.Atoi(words[3])
		if err != nil || keep < 0 || keep > MaxKeep {
			return errHeader
		}
		x.ID, x.Keep = words[2], keep
		return nil
	}
	e, err := parse(line)
	switch {
	case err != nil:
		return err
	case e.Offset < x.last || x.Ended:
		return errOrder
	}
	x.last = e.Offset
	return x.add(e)
}

// AddSegment adds one that no keeper has written down.
func (x *Index) AddSegment(file LogFile, offset, position int64) {
	x.Segments = append(x.Segments, Segment{LogFile: file, Offset: offset, Position: position, EndPosition: -1})
}

func (x *Index) add(e Entry) error {
	if x.files == nil {
		x.files = make(map[uint64]*pieces)
	}
	file := x.files[e.Inode]
	switch e.Kind {
	case File:
		if file != nil {
			for _, i := range file.stack {
				x.Segments[i].Gone = true
			}
		}
		file = &pieces{LogFile: LogFile{e.Inode, e.Offset}}
		x.files[e.Inode] = file
		x.begin(file, e)
	case Jump:
		if file == nil {
			return errFile
		}
		x.begin(file, e)
	case Mark:
		if file == nil {
			return errFile
		}
	case End:
		x.Ended, x.Total = true, e.Offset
	case Shared:
		x.Shared = true
	}
	x.times = append(x.times, timed{e.Offset, e.Time})
	return nil
}

// begin adds the segment of an entry. Earlier segments of the file have lost the bytes behind its
// position.
func (x *Index) begin(file *pieces, e Entry) {
	for len(file.stack) > 0 {
		i := file.stack[len(file.stack)-1]
		if x.Segments[i].Position < e.Position {
			x.Segments[i].EndPosition = e.Position
			break
		}
		x.Segments[i].Gone = true
		file.stack = file.stack[:len(file.stack)-1]
	}
	file.stack = append(file.stack, len(x.Segments))
	x.AddSegment(file.LogFile, e.Offset, e.Position)
}

// At returns the segment that has a byte, or would have it, and the offset behind the segment; -1:
// that is not known yet. Without such a segment, found is false and next is where the first one
// begins.
func (x *Index) At(offset int64) (s Segment, next int64, found bool) {
	i := sort.Search(len(x.Segments), func(i int) bool { return x.Segments[i].Offset > offset })
	next = -1
	switch {
	case i < len(x.Segments):
		next = x.Segments[i].Offset
	case x.Ended:
		next = x.Total
	}
	if i == 0 {
		return Segment{}, next, false
	}
	return x.Segments[i-1], next, true
}

// Replaced reports whether the inode of a file is that of another file by now.
func (x *Index) Replaced(file LogFile) bool {
	now := x.files[file.Inode]
	return now != nil && now.LogFile != file
}

// Since returns an offset before which nothing was written at the time or later. It is at most as
// far before the first byte that was as the Marks of a keeper are apart.
func (x *Index) Since(t time.Time) int64 {
	// The clock may have been set back in between: the first entry that is later counts.
	i := 0
	for i < len(x.times) && !x.times[i].time.After(t) {
		i++
	}
	if i == 0 {
		return 0
	}
	return x.times[i-1].offset
}

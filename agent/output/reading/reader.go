package reading

import (
	"errors"
	"io"
	"math"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/output/offsets"
)

// maxTurns is how often a Reader looks again at offsets that change all the time before it says
// that there is nothing now.
const maxTurns = 100

// Reader reads one stream of an engine.
type Reader struct {
	in   *folder
	side *side
	at   int64
	// until is where the reading ends; -1: where the output does.
	until int64

	fd   int // -1: none is open
	file offsets.LogFile
}

// Part is output, or a gap in it.
type Part struct {
	// Offset is that of the first byte.
	Offset int64
	// Data are the bytes. It is empty if the bytes before To are gone.
	Data []byte
	To   int64
}

// Open opens a stream. The error is an *Error.
func Open(r Request) (*Reader, error) {
	if err := r.Check(); err != nil {
		return nil, wrong(Invalid, "%v", err)
	}
	in, err := openFolder(r.Folder, r.Stream)
	if err != nil {
		return nil, err
	}
	s, err := openSide(in, r.ID)
	if err != nil {
		in.close()
		return nil, err
	}
	reader := &Reader{in: in, side: s, until: -1, fd: -1}
	if err := reader.begin(r); err != nil {
		reader.Close()
		return nil, err
	}
	return reader, nil
}

// Close closes all files.
func (r *Reader) Close() {
	r.forget()
	r.side.close()
	r.in.close()
}

// At is the offset of the next byte.
func (r *Reader) At() int64 { return r.at }

// Counted reports whether the offsets are the keeper's. Otherwise they count from the oldest file
// that was there when the Reader was opened.
func (r *Reader) Counted() bool { return r.side.counted() }

// KeeperLives reports whether more may be written, as far as the offsets tell.
func (r *Reader) KeeperLives() bool { return !r.side.counted() || !r.side.Ended && r.side.locked() }

// Next reads into a buffer, or says which bytes are gone. It returns io.EOF at the end, and
// io.ErrNoProgress if nothing more is there now. Other errors are *Error.
func (r *Reader) Next(buffer []byte) (Part, error) {
	for range maxTurns {
		part, err := r.step(buffer)
		if errors.Is(err, errMoved) {
			continue
		}
		if err != nil || part.To > part.Offset {
			return part, err
		}
		changed, err := r.refresh()
		if err != nil {
			return Part{}, err
		}
		if !changed {
			break
		}
	}
	return Part{}, errNothing
}

// refresh reads new offsets. The open file may be one that was taken for another, because it has
// the inode of a file that was removed.
func (r *Reader) refresh() (changed bool, err error) {
	changed, err = r.side.refresh()
	if changed && r.fd >= 0 && r.side.Replaced(r.file) {
		r.forget()
	}
	return changed, err
}

func (r *Reader) forget() {
	if r.fd >= 0 {
		_ = unix.Close(r.fd)
		r.fd = -1
	}
}

// step reads by the offsets that are known.
func (r *Reader) step(buffer []byte) (Part, error) {
	if r.until >= 0 && r.at >= r.until {
		return Part{}, io.EOF
	}
	segment, next, found := r.side.At(r.at)
	if r.side.Ended && r.at >= r.side.Total {
		return Part{}, io.EOF
	}
	if r.until >= 0 && (next < 0 || next > r.until) {
		next = r.until
		if r.side.Ended {
			next = min(next, r.side.Total)
		}
	}
	if found {
		n, err := r.read(buffer, segment, next)
		if err != nil {
			return Part{}, err
		}
		if n > 0 {
			part := Part{Offset: r.at, Data: buffer[:n], To: r.at + int64(n)}
			r.at = part.To
			return part, nil
		}
	}
	if next > r.at {
		part := Part{Offset: r.at, To: next}
		r.at = next
		return part, nil
	}
	return Part{}, nil
}

// errMoved says that the offsets have another place for the next byte by now.
var errMoved = errors.New("moved")

// read reads from a segment. The error may be errMoved.
func (r *Reader) read(buffer []byte, s offsets.Segment, next int64) (int, error) {
	room, position := room(s, r.at, next)
	room = min(room, int64(len(buffer)))
	if room <= 0 {
		return 0, nil
	}
	if r.fd < 0 || r.file != s.LogFile {
		r.forget()
		fd, err := r.in.find(s.Inode, r.side.keep())
		if is(err, Gone) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		r.fd, r.file = fd, s.LogFile
	}
	n, err := pread(r.fd, buffer[:room], position)
	if err != nil {
		return 0, failed(path.Join(r.in.path, r.in.stream), err)
	}
	if n == 0 {
		return 0, nil
	}
	// The keeper says where a byte is before it writes the byte: if these are of a new file that
	// has the inode of a removed one, the offsets say so by now.
	changed, err := r.refresh()
	if err != nil {
		return 0, err
	}
	if changed && r.moved(s) {
		return 0, errMoved
	}
	return n, nil
}

// moved reports whether the offsets have another segment by now for the next byte.
func (r *Reader) moved(s offsets.Segment) bool {
	if r.fd < 0 {
		return true
	}
	now, _, found := r.side.At(r.at)
	return !found || now.Gone || now.LogFile != s.LogFile || now.Offset != s.Offset || now.Position != s.Position || now.EndPosition != s.EndPosition
}

// room is how many bytes of a segment there can be from an offset on, and their position.
func room(s offsets.Segment, at, next int64) (room, position int64) {
	position = s.Position + at - s.Offset
	room = math.MaxInt64
	if next >= 0 {
		room = next - at
	}
	if s.EndPosition >= 0 {
		room = min(room, s.EndPosition-position)
	}
	if s.Gone {
		room = 0
	}
	return room, position
}

// begin finds out where the reading begins and ends.
func (r *Reader) begin(request Request) error {
	end, err := r.end()
	if err != nil {
		return err
	}
	r.at = request.From
	if request.TailBytes > 0 {
		r.at = max(r.at, end-request.TailBytes)
	}
	if request.TailLines > 0 {
		at, err := r.tail(request.TailLines, end)
		if err != nil {
			return err
		}
		r.at = max(r.at, at)
	}
	if !request.Since.IsZero() {
		at, err := r.since(request.Since, end)
		if err != nil {
			return err
		}
		r.at = max(r.at, at)
	}
	if !request.Follow {
		r.until = end
	}
	return nil
}

// end is how much was written so far.
func (r *Reader) end() (int64, error) {
	if r.side.Ended {
		return r.side.Total, nil
	}
	if len(r.side.Segments) == 0 {
		return 0, nil
	}
	last := r.side.Segments[len(r.side.Segments)-1]
	fd, err := r.in.find(last.Inode, r.side.keep())
	if is(err, Gone) {
		return last.Offset, nil
	}
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return 0, failed(r.in.path, err)
	}
	return last.Offset + max(0, min(stat.Size, math.MaxInt64>>2)-last.Position), nil
}

// since is where the output since a time begins.
func (r *Reader) since(t time.Time, end int64) (int64, error) {
	if stat, err := r.in.look(r.in.stream); err == nil && time.Unix(stat.Mtim.Unix()).Before(t) {
		return end, nil // nothing was written since
	} else if err != nil && !is(err, Gone) {
		return 0, err
	}
	if r.side.counted() {
		return r.side.Since(t), nil
	}
	files, err := r.side.files()
	if err != nil {
		return 0, err
	}
	for i := len(files) - 1; i >= 0; i-- {
		if time.Unix(files[i].Mtim.Unix()).Before(t) {
			for _, s := range r.side.Segments {
				if s.Inode == files[i].Ino {
					return min(end, s.Offset+files[i].Size), nil
				}
			}
		}
	}
	return 0, nil
}

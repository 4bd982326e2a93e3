package offsets

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxBytes bounds the file of a stream, in bytes. A keeper writes less than half of it.
	MaxBytes = 2 << 20
	// MaxKeep is how many older files of a stream there can be, as in the contract.
	MaxKeep = 100
	// maxLine bounds a line, in bytes.
	maxLine = 256
	// most bounds positions and offsets, so that sums of two of them do not overflow.
	most = int64(1) << 61

	magic = "bursar-offsets 1"
)

// Kind is the kind of an Entry.
type Kind byte

const (
	// File begins a file: earlier entries of its inode are about a file that is gone.
	File Kind = 'f'
	// Jump says that the offset, or the position in the file, does not follow from the entry
	// before.
	Jump Kind = 'j'
	// Mark says when a byte was written.
	Mark Kind = 'm'
	// End says that the stream has ended: Offset is the number of all its bytes.
	End Kind = 'e'
	// Shared says that other programs write into the files, so that bytes are not counted any
	// more.
	Shared Kind = 'x'
)

// Entry says that the byte Offset of the output is the byte Position of the file Inode, and was
// written at Time, which is exact to a millisecond.
type Entry struct {
	Kind             Kind
	Inode            uint64
	Position, Offset int64
	Time             time.Time
}

// Name is the file name of the offsets of a stream.
func Name(stream string) string { return "." + stream + ".offsets" }

// NewName is the name of a file of offsets that is about to replace the one before.
func NewName(stream string) string { return Name(stream) + ".new" }

// Older is the name of the i-th older log file of a stream; the newest file is the 0th.
func Older(stream string, i int) string {
	if i == 0 {
		return stream
	}
	return stream + "." + strconv.Itoa(i)
}

func (e Entry) line() string {
	return fmt.Sprintf("%c %d %d %d %d\n", e.Kind, e.Inode, e.Position, e.Offset, e.Time.UnixMilli())
}

func header(id string, keep int) string { return fmt.Sprintf("%s %s %d\n", magic, id, keep) }

var errLine = errors.New("want a kind, an inode, a position, an offset and a time, each from 0 on")

func parse(line string) (Entry, error) {
	words := strings.Split(line, " ")
	if len(words) != 5 || len(words[0]) != 1 {
		return Entry{}, errLine
	}
	kind := Kind(words[0][0])
	switch kind {
	case File, Jump, Mark, End, Shared:
	default:
		return Entry{}, errLine
	}
	inode, err := strconv.ParseUint(words[1], 10, 64)
	if err != nil {
		return Entry{}, errLine
	}
	var numbers [3]int64
	for i := range numbers {
		number, err := strconv.ParseInt(words[2+i], 10, 64)
		if err != nil || number < 0 || number > most {
			return Entry{}, errLine
		}
		numbers[i] = number
	}
	return Entry{kind, inode, numbers[0], numbers[1], time.UnixMilli(numbers[2])}, nil
}

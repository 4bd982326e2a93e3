package statefile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A log is records, one a change, in lines of text:
//
//	CHECKSUM NUMBER LENGTH {"engines":[…],"ended":[…],"gone":["…"],"left":{…}}
//
// in front of the JSON eight hexadecimal digits each: a CRC-32C over the log's name and the rest
// of the record; how many records there are before it; and the bytes of the JSON. Blanks fill the
// line up to whole blocks, so that no write touches a block with a record that was stored before:
// what power loss does to a record, it does to that one alone.
const (
	blockSize  = 4096
	headerSize = 3 * 9
	// logAlphabet is that of crypto/rand.Text.
	logAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) } // made once

// changeText is the JSON of a tracker.Change.
type changeText struct {
	Engines []json.RawMessage `json:"engines,omitempty"` // bursar.v1.Allocation
	Ended   []json.RawMessage `json:"ended,omitempty"`   // bursar.v1.EngineEnd
	Gone    []string          `json:"gone,omitempty"`    // ids
	// Left belongs to Engines. An agent that does not know it ignores it.
	Left map[string][]tracker.Left `json:"left,omitempty"`
}

// encodeRecord returns the record of a change, in whole blocks.
func encodeRecord(log string, number uint32, c tracker.Change) ([]byte, error) {
	text := changeText{Gone: c.Gone, Left: c.Left}
	var err error
	if text.Engines, err = encodeAll(c.Engines); err != nil {
		return nil, err
	}
	if text.Ended, err = encodeAll(c.Ended); err != nil {
		return nil, err
	}
	content, err := json.Marshal(text)
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	blocks := (headerSize + len(content) + len("\n") + blockSize - 1) / blockSize
	record := slices.Grow(fmt.Appendf(nil, "%08x %08x %08x ", 0, number, len(content)), blocks*blockSize)
	record = append(record, content...)
	copy(record, fmt.Sprintf("%08x", recordChecksum(log, record)))
	record = append(record, bytes.Repeat([]byte{' '}, blocks*blockSize-len(record))...)
	record[len(record)-1] = '\n'
	return record, nil
}

// recordChecksum covers a record without the checksum itself and the blanks at its end.
func recordChecksum(log string, record []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(log), castagnoli()), castagnoli(), record[8:])
}

// decodeRecord reads the first record of content. sound says that its checksum is right; size is
// the size of its blocks.
func decodeRecord(log string, content []byte) (number uint32, text []byte, size int, sound bool) {
	if len(content) < headerSize {
		return 0, nil, 0, false
	}
	var fields [3]uint32
	for i := range fields {
		field, err := strconv.ParseUint(string(content[9*i:9*i+8]), 16, 32)
		if err != nil || content[9*i+8] != ' ' {
			return 0, nil, 0, false
		}
		fields[i] = uint32(field)
	}
	end := headerSize + int64(fields[2])
	if end > int64(len(content)) || recordChecksum(log, content[:end]) != fields[0] {
		return 0, nil, 0, false
	}
	return fields[1], content[headerSize:end], int((end + blockSize) / blockSize * blockSize), true
}

// replay applies a log to its state. If the last record is not sound, it was being written when the
// agent or the machine failed, and no caller was told that it is stored. If a sound record follows
// one that is not, the log is damaged.
func replay(s State, content []byte) (State, error) {
	engines, ended := make(map[string]*bursarv1.Allocation), make(map[string]*bursarv1.EngineEnd)
	left := maps.Clone(s.Left)
	if left == nil {
		left = make(map[string][]tracker.Left)
	}
	for _, a := range s.Engines {
		engines[a.GetId()] = a
	}
	for _, end := range s.Ended {
		ended[end.GetAllocationId()] = end
	}
	want := uint32(0)
	for offset := 0; offset < len(content); want++ {
		number, text, size, sound := decodeRecord(s.Log, content[offset:])
		if !sound {
			if i := nextSound(s.Log, content[offset:]); i > 0 {
				return State{}, fmt.Errorf("log: record %d at byte %d is not what was written, and the one at byte %d is", want, offset, offset+i)
			}
			s.CutOff = len(content) - offset
			break
		}
		if number != want {
			return State{}, fmt.Errorf("log: record %d at byte %d: want %d", number, offset, want)
		}
		c, err := decodeChange(text, s.HostID)
		if err != nil {
			return State{}, fmt.Errorf("log: record %d: %w", number, err)
		}
		apply(c, engines, ended, left)
		offset += size
	}
	s.Engines, s.Ended, s.Left = nil, nil, nil
	if len(left) > 0 {
		s.Left = left
	}
	for _, a := range engines {
		s.Engines = append(s.Engines, a)
	}
	for _, end := range ended {
		s.Ended = append(s.Ended, end)
	}
	slices.SortFunc(s.Engines, func(a, b *bursarv1.Allocation) int { return cmp.Compare(a.GetId(), b.GetId()) })
	slices.SortFunc(s.Ended, func(a, b *bursarv1.EngineEnd) int { return cmp.Compare(a.GetAllocationId(), b.GetAllocationId()) })
	return s, nil
}

// nextSound returns the offset of a sound record after one that is not; 0 if there is none.
func nextSound(log string, content []byte) int {
	for i := blockSize; i < len(content); i += blockSize {
		if _, _, _, sound := decodeRecord(log, content[i:]); sound {
			return i
		}
	}
	return 0
}

func decodeChange(text []byte, host string) (c tracker.Change, err error) {
	var t changeText
	if err = json.Unmarshal(text, &t); err != nil {
		return c, err //nolint:wrapcheck // the only caller says what it is about
	}
	c.Gone, c.Left = t.Gone, t.Left
	c.Engines, c.Ended, err = decodeAll(t.Engines, t.Ended, host)
	return c, err
}

func apply(c tracker.Change, engines map[string]*bursarv1.Allocation, ended map[string]*bursarv1.EngineEnd, left map[string][]tracker.Left) {
	for _, id := range c.Gone {
		delete(engines, id)
		delete(ended, id)
		delete(left, id)
	}
	for _, a := range c.Engines {
		engines[a.GetId()] = a
		delete(ended, a.GetId())
		delete(left, a.GetId())
	}
	for _, end := range c.Ended {
		ended[end.GetAllocationId()] = end
		delete(engines, end.GetAllocationId())
		delete(left, end.GetAllocationId())
	}
	maps.Copy(left, c.Left)
}

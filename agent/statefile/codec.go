package statefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// version is that of the format. It grows when an older agent would misread the file.
const version = 1

// maxSize is more than the records of 100,000 engines.
const maxSize = 256 << 20

// State is what is kept.
type State struct {
	HostID string
	// Incarnation is that of the agent that wrote the file.
	Incarnation uint64
	SavedAt     time.Time

	tracker.Snapshot
}

// DamagedError says that the content is not what was written.
type DamagedError struct {
	Err error
}

func (e *DamagedError) Error() string { return "damaged: " + e.Err.Error() }

// Unwrap returns what is wrong.
func (e *DamagedError) Unwrap() error { return e.Err }

// VersionError says that a newer agent wrote the file.
type VersionError struct {
	Got, Want int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("written by a newer agent (format %d): want format %d or older, or an agent of that version", e.Got, e.Want)
}

// envelope is the file. Version comes first and means the same in every version.
type envelope struct {
	Version  int             `json:"version"`
	Checksum string          `json:"checksum"` // CRC-32C of the compact state, in hex
	State    json.RawMessage `json:"state"`
}

type payload struct {
	HostID      string            `json:"hostId"`
	BootID      string            `json:"bootId"`
	Incarnation uint64            `json:"incarnation,string"`
	Epoch       uint64            `json:"epoch,string"`
	Leadership  uint64            `json:"leadership,omitempty,string"` // of the epoch
	StoreID     string            `json:"storeId,omitempty"`
	SavedAt     time.Time         `json:"savedAt"`
	Engines     []json.RawMessage `json:"engines,omitempty"` // bursar.v1.Allocation
	Ended       []json.RawMessage `json:"ended,omitempty"`   // bursar.v1.EngineEnd
}

// Encode returns the file's content.
func Encode(s State) ([]byte, error) {
	p := payload{
		HostID: s.HostID, BootID: s.BootID, Incarnation: s.Incarnation,
		Epoch: s.Epoch, Leadership: s.Leadership, StoreID: s.StoreID, SavedAt: s.SavedAt.UTC(),
	}
	var err error
	if p.Engines, err = encodeAll(s.Engines); err != nil {
		return nil, err
	}
	if p.Ended, err = encodeAll(s.Ended); err != nil {
		return nil, err
	}
	state, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	content, err := json.Marshal(envelope{Version: version, Checksum: checksum(state), State: state})
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	return append(content, '\n'), nil
}

func encodeAll[M proto.Message](messages []M) ([]json.RawMessage, error) {
	list := make([]json.RawMessage, 0, len(messages))
	for _, m := range messages {
		text, err := protojson.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("encode state: %w", err)
		}
		list = append(list, text)
	}
	return list, nil
}

// Decode reads what Encode wrote. The errors are *VersionError and *DamagedError.
func Decode(content []byte) (State, error) {
	var e envelope
	if err := json.Unmarshal(content, &e); err != nil {
		return State{}, &DamagedError{err}
	}
	if e.Version > version {
		return State{}, &VersionError{Got: e.Version, Want: version}
	}
	if e.Version < 1 {
		return State{}, &DamagedError{fmt.Errorf("version %d", e.Version)}
	}
	var compact bytes.Buffer // whoever looked at the file with an editor may have spread it out
	if err := json.Compact(&compact, e.State); err != nil {
		return State{}, &DamagedError{err}
	}
	if sum := checksum(compact.Bytes()); sum != e.Checksum {
		return State{}, &DamagedError{fmt.Errorf("checksum %s: want %s", sum, e.Checksum)}
	}
	s, err := decodePayload(compact.Bytes())
	if err != nil {
		return State{}, &DamagedError{err}
	}
	return s, nil
}

func decodePayload(text []byte) (State, error) {
	var p payload
	if err := json.Unmarshal(text, &p); err != nil {
		return State{}, err //nolint:wrapcheck // the only caller says what it is about
	}
	s := State{HostID: p.HostID, Incarnation: p.Incarnation, SavedAt: p.SavedAt}
	s.Epoch, s.Leadership, s.StoreID, s.BootID = p.Epoch, p.Leadership, p.StoreID, p.BootID
	if s.HostID == "" || s.BootID == "" {
		return State{}, errors.New("no host id, or no boot id")
	}
	known := make(map[string]bool)
	for _, text := range p.Engines {
		a := &bursarv1.Allocation{}
		if err := decodeMessage(text, a); err != nil {
			return State{}, err
		}
		if a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE || a.GetProcess().GetPid() <= 0 || a.GetHostId() != s.HostID {
			return State{}, fmt.Errorf("engine %q: want an active allocation of host %s with a pid", a.GetId(), s.HostID)
		}
		if err := once(known, a.GetId()); err != nil {
			return State{}, err
		}
		s.Engines = append(s.Engines, a)
	}
	for _, text := range p.Ended {
		end := &bursarv1.EngineEnd{}
		if err := decodeMessage(text, end); err != nil {
			return State{}, err
		}
		if err := once(known, end.GetAllocationId()); err != nil {
			return State{}, err
		}
		s.Ended = append(s.Ended, end)
	}
	return s, nil
}

// decodeMessage leaves aside fields that a later version of the contract has added.
func decodeMessage(text []byte, m proto.Message) error {
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, m) //nolint:wrapcheck // names the message
}

func once(known map[string]bool, id string) error {
	if id == "" || known[id] {
		return fmt.Errorf("allocation %q: want an id, and each once", id)
	}
	known[id] = true
	return nil
}

func checksum(state []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(state, crc32.MakeTable(crc32.Castagnoli)))
}

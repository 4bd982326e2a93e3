package statefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// The versions of the format. A new one is needed when an older agent would misread the file.
const (
	versionAlone = 1 // the file is the whole state
	versionLog   = 2 // a log has the later changes
	version      = versionLog
)

// maxSize bounds the file. It is more than the records of 100,000 engines.
const maxSize = 256 << 20

// State is the content of the file.
type State struct {
	HostID string
	// Incarnation is the incarnation of the agent that wrote the file.
	Incarnation uint64
	SavedAt     time.Time
	// Log names the log of the later changes. It is empty if the file is the whole state; then an
	// agent without logs can read it.
	Log string
	// CutOff is how many bytes at the log's end belong to a change that was being written when the
	// agent or the machine failed.
	CutOff int

	tracker.Snapshot
}

// DamagedError says that the content differs from the written one.
type DamagedError struct {
	Err error
}

func (e *DamagedError) Error() string { return "damaged: " + e.Err.Error() }

// Unwrap returns the fault.
func (e *DamagedError) Unwrap() error { return e.Err }

// VersionError says that a newer agent wrote the file.
type VersionError struct {
	Got, Want int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("written by a newer agent (format %d): want format %d or older, or an agent of that version", e.Got, e.Want)
}

// envelope is the file. Version comes first and has the same meaning in every version.
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
	Cluster     string            `json:"cluster,omitempty"`
	SavedAt     time.Time         `json:"savedAt"`
	Log         string            `json:"log,omitempty"`
	Engines     []json.RawMessage `json:"engines,omitempty"` // bursar.v1.Allocation
	Ended       []json.RawMessage `json:"ended,omitempty"`   // bursar.v1.EngineEnd
	// Left is by allocation. An agent that does not know it ignores it.
	Left map[string][]tracker.Left `json:"left,omitempty"`
}

// Encode returns the file's content.
func Encode(s State) ([]byte, error) {
	p := payload{
		HostID: s.HostID, BootID: s.BootID, Incarnation: s.Incarnation,
		Epoch: s.Epoch, Leadership: s.Leadership, StoreID: s.StoreID, Cluster: s.Cluster, SavedAt: s.SavedAt.UTC(), Log: s.Log, Left: s.Left,
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
	e := envelope{Version: versionAlone, Checksum: checksum(state), State: state}
	if s.Log != "" {
		e.Version = versionLog
	}
	content, err := json.Marshal(e)
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

// Decode reads a content of Encode. The errors are *VersionError and *DamagedError.
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
	var compact bytes.Buffer // an editor may have put the content on several lines
	if err := json.Compact(&compact, e.State); err != nil {
		return State{}, &DamagedError{err}
	}
	if sum := checksum(compact.Bytes()); sum != e.Checksum {
		return State{}, &DamagedError{fmt.Errorf("checksum %s: want %s", sum, e.Checksum)}
	}
	s, err := decodePayload(compact.Bytes())
	if err == nil && (s.Log != "") != (e.Version == versionLog) {
		err = fmt.Errorf("log %q in format %d", s.Log, e.Version)
	}
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
	s := State{HostID: p.HostID, Incarnation: p.Incarnation, SavedAt: p.SavedAt, Log: p.Log}
	s.Left = p.Left
	s.Epoch, s.Leadership, s.StoreID, s.Cluster, s.BootID = p.Epoch, p.Leadership, p.StoreID, p.Cluster, p.BootID
	if s.HostID == "" || s.BootID == "" {
		return State{}, errors.New("no host id, or no boot id")
	}
	if strings.Trim(s.Log, logAlphabet) != "" {
		return State{}, fmt.Errorf("log %q: want letters and digits", s.Log)
	}
	var err error
	s.Engines, s.Ended, err = decodeAll(p.Engines, p.Ended, s.HostID)
	return s, err
}

// decodeAll reads engines and ends. Each id may occur only once.
func decodeAll(engines, ended []json.RawMessage, host string) (list []*bursarv1.Allocation, ends []*bursarv1.EngineEnd, err error) {
	known := make(map[string]bool)
	for _, text := range engines {
		a, err := decodeEngine(text, host)
		if err != nil {
			return nil, nil, err
		}
		if err := once(known, a.GetId()); err != nil {
			return nil, nil, err
		}
		list = append(list, a)
	}
	for _, text := range ended {
		end := &bursarv1.EngineEnd{}
		if err := decodeMessage(text, end); err != nil {
			return nil, nil, err
		}
		if err := once(known, end.GetAllocationId()); err != nil {
			return nil, nil, err
		}
		ends = append(ends, end)
	}
	return list, ends, nil
}

func decodeEngine(text []byte, host string) (*bursarv1.Allocation, error) {
	a := &bursarv1.Allocation{}
	if err := decodeMessage(text, a); err != nil {
		return nil, err
	}
	if a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE || a.GetProcess().GetPid() <= 0 || a.GetHostId() != host {
		return nil, fmt.Errorf("engine %q: want an active allocation of host %s with a pid", a.GetId(), host)
	}
	return a, nil
}

// decodeMessage ignores fields that a later version of the contract has added.
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
	return fmt.Sprintf("%08x", crc32.Checksum(state, castagnoli()))
}

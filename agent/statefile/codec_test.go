package statefile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func state() statefile.State {
	return statefile.State{
		HostID: "h1", Incarnation: 1<<63 + 5, SavedAt: time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC),
		Snapshot: tracker.Snapshot{
			Epoch: 7, Leadership: 1<<63 + 1, StoreID: "store-1", BootID: "boot-1",
			Engines: []*bursarv1.Allocation{{
				Id: "a", HostId: "h1", State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, Revision: 12,
				Labels:   map[string]string{"user": "a<b>&\u2028\u00fc"},
				Entitled: &bursarv1.Resource{MemoryBytes: new(int64(1 << 30)), CpuMillis: new(int64(0))},
				Process:  &bursarv1.Process{Pid: 42, StartTime: 1 << 60, BootId: "boot-1"},
				Seal:     []byte{1, 2, 255},
			}},
			Ended: []*bursarv1.EngineEnd{{
				AllocationId: "b", EndTime: timestamppb.New(time.Unix(5, 0)), ExitStatus: &bursarv1.ExitStatus{Signal: 9}, Reason: "process ended",
			}},
		},
	}
}

func encode(t *testing.T, s statefile.State) []byte {
	t.Helper()
	content, err := statefile.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// seal puts a payload of any content into a valid envelope.
func seal(version int, payload string) string {
	sum := crc32.Checksum([]byte(payload), crc32.MakeTable(crc32.Castagnoli))
	return fmt.Sprintf(`{"version":%d,"checksum":"%08x","state":%s}`, version, sum, payload)
}

func TestStateRoundTrips(t *testing.T) {
	for name, s := range map[string]statefile.State{
		"full":       state(),
		"with a log": {HostID: "h1", Log: "A7", Snapshot: tracker.Snapshot{BootID: "boot-1"}},
		"empty":      {HostID: "h1", Snapshot: tracker.Snapshot{BootID: "boot-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			content := encode(t, s)
			got, err := statefile.Decode(content)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s, got, protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
			var spread bytes.Buffer
			if err := json.Indent(&spread, content, "", "  "); err != nil {
				t.Fatal(err)
			}
			if _, err := statefile.Decode(spread.Bytes()); err != nil {
				t.Errorf("spread out by an editor: %v", err)
			}
		})
	}
}

func TestEveryDamageIsFound(t *testing.T) {
	content := bytes.TrimSpace(encode(t, state()))
	for i := range content {
		for _, damage := range []byte{0, ' ', '7', content[i] ^ 1} {
			broken := bytes.Clone(content)
			broken[i] = damage
			got, err := statefile.Decode(broken)
			if err == nil && !cmp.Equal(state(), got, protocmp.Transform()) {
				t.Fatalf("byte %d, %q for %q: read as another state", i, damage, content[i])
			}
		}
		var damaged *statefile.DamagedError
		if _, err := statefile.Decode(content[:i]); !errors.As(err, &damaged) {
			t.Fatalf("cut off at %d: %v", i, err)
		}
	}
}

func TestNewerVersionIsRefusedWhateverIsInIt(t *testing.T) {
	var newer *statefile.VersionError
	_, err := statefile.Decode([]byte(`{"version":3,"what":"ever"}`))
	if !errors.As(err, &newer) || newer.Got != 3 || newer.Want != 2 || !strings.Contains(err.Error(), "newer agent (format 3)") {
		t.Errorf("version 3: %v", err)
	}
}

func TestContentThatMakesNoSenseIsDamage(t *testing.T) {
	for name, content := range map[string]string{
		"no version":                      `{}`,
		"no object":                       `[]`,
		"no state":                        seal(1, `null`),
		"a log that old agents pass over": seal(1, `{"hostId":"h","bootId":"b","incarnation":"1","epoch":"1","log":"A"}`),
		"a log without a name":            seal(2, `{"hostId":"h","bootId":"b","incarnation":"1","epoch":"1"}`),
		"a log elsewhere":                 seal(2, `{"hostId":"h","bootId":"b","incarnation":"1","epoch":"1","log":"../A"}`),
		"no host":                         seal(1, `{"hostId":"","bootId":"b","incarnation":"1","epoch":"1"}`),
		"no boot":                         seal(1, `{"hostId":"h","bootId":"","incarnation":"1","epoch":"1"}`),
		"an epoch that is no number":      seal(1, `{"hostId":"h","bootId":"b","incarnation":"1","epoch":"x"}`),
		"an engine that waits":            seal(1, `{"hostId":"h","bootId":"b","incarnation":"1","epoch":"1","engines":[{"id":"a","hostId":"h","state":"ALLOCATION_STATE_WAITING","process":{"pid":4}}]}`),
		"an engine without a pid":         seal(1, `{"hostId":"h","bootId":"b","incarnation":"1","epoch":"1","engines":[{"id":"a","hostId":"h","state":"ALLOCATION_STATE_ACTIVE"}]}`),
		"an engine of another host":       seal(1, `{"hostId":"h","bootId":"b","incarnation":"1","epoch":"1","engines":[{"id":"a","hostId":"i","state":"ALLOCATION_STATE_ACTIVE","process":{"pid":4}}]}`),
		"an engine that has ended":        seal(1, `{"hostId":"h","bootId":"b","incarnation":"1","epoch":"1","engines":[{"id":"a","hostId":"h","state":"ALLOCATION_STATE_ACTIVE","process":{"pid":4}}],"ended":[{"allocationId":"a"}]}`),
		"a tombstone without a name":      seal(1, `{"hostId":"h","bootId":"b","incarnation":"1","epoch":"1","ended":[{}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			var damaged *statefile.DamagedError
			if _, err := statefile.Decode([]byte(content)); !errors.As(err, &damaged) {
				t.Errorf("%v, want a *DamagedError", err)
			}
		})
	}
}

func TestFieldsOfALaterContractAreLeftAside(t *testing.T) {
	content := seal(1, `{"hostId":"h","bootId":"b","incarnation":"1","epoch":"1","ended":[{"allocationId":"a","mood":"good"}]}`)
	s, err := statefile.Decode([]byte(content))
	if err != nil || len(s.Ended) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// sound returns an error for a state that an agent cannot have written.
func sound(t *testing.T, s statefile.State) {
	t.Helper()
	known := map[string]bool{}
	for _, a := range s.Engines {
		if a.GetId() == "" || known[a.GetId()] || a.GetHostId() != s.HostID || a.GetProcess().GetPid() <= 0 ||
			a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE {
			t.Errorf("no engine of %q: %v", s.HostID, a)
		}
		known[a.GetId()] = true
	}
	for _, end := range s.Ended {
		if end.GetAllocationId() == "" || known[end.GetAllocationId()] {
			t.Errorf("no end, or of an engine that is there too: %v", end)
		}
		known[end.GetAllocationId()] = true
	}
	again, err := statefile.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	back, err := statefile.Decode(again)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, back, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// refused reports whether content was refused, with a type.
func refused(t *testing.T, err error) bool {
	t.Helper()
	var damaged *statefile.DamagedError
	var newer *statefile.VersionError
	if err != nil && !errors.As(err, &damaged) && !errors.As(err, &newer) {
		t.Errorf("an error without a type: %v", err)
	}
	return err != nil
}

// Any bytes are either refused with an error of a known type, or are a valid state with its
// checksum.
func FuzzDecode(f *testing.F) {
	content, err := statefile.Encode(state())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add([]byte(seal(1, `{"hostId":"h","bootId":"b","incarnation":"1","epoch":"1"}`)))
	f.Add([]byte(seal(2, `{"hostId":"h","bootId":"b","incarnation":"1","epoch":"1","log":"A"}`)))
	f.Add([]byte(seal(3, `{}`)))
	f.Fuzz(func(t *testing.T, content []byte) {
		s, err := statefile.Decode(content)
		if refused(t, err) {
			return
		}
		sound(t, s)
		var envelope struct {
			Checksum string          `json:"checksum"`
			State    json.RawMessage `json:"state"`
		}
		var compact bytes.Buffer
		if err := errors.Join(json.Unmarshal(content, &envelope), json.Compact(&compact, envelope.State)); err != nil {
			t.Fatal(err)
		}
		if sum := crc32.Checksum(compact.Bytes(), crc32.MakeTable(crc32.Castagnoli)); envelope.Checksum != fmt.Sprintf("%08x", sum) {
			t.Errorf("checksum %s was taken for that of %s", envelope.Checksum, compact.Bytes())
		}
	})
}

// Whatever is sealed, as by an agent with an error in it.
func FuzzDecodeSealed(f *testing.F) {
	f.Add(`{"hostId":"h","bootId":"b","incarnation":"1","epoch":"1"}`)
	f.Add(`{"hostId":"h","bootId":"b","incarnation":"1","epoch":"1","engines":[{"id":"a","hostId":"h","state":2,"process":{"pid":4}}]}`)
	f.Add(`{"hostId":"h","bootId":"b","incarnation":"1","epoch":"1","engines":[{"id":"a","hostId":"h","state":3,"process":{"pid":4}}],"ended":[{"allocationId":"b"}]}`)
	f.Fuzz(func(t *testing.T, payload string) {
		if !json.Valid([]byte(payload)) {
			return
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(payload)); err != nil {
			t.Fatal(err)
		}
		s, err := statefile.Decode([]byte(seal(1, compact.String())))
		if !refused(t, err) {
			sound(t, s)
		}
	})
}

// A file with lost pages, an early end, a repeated piece, or changed bytes is refused or still has
// the written state: no engine is added or lost.
func TestDamagedStateIsNeverAnotherState(t *testing.T) {
	content, err := statefile.Encode(state())
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(r *rapid.T) {
		broken := bytes.Clone(content)
		for range rapid.IntRange(1, 4).Draw(r, "damages") {
			broken = damage(r, broken)
		}
		got, err := statefile.Decode(broken)
		if !refused(t, err) && !cmp.Equal(state(), got, protocmp.Transform()) {
			r.Fatalf("read as another state: %q", broken)
		}
	})
}

// damage damages content as disks and people do.
func damage(r *rapid.T, broken []byte) []byte {
	if len(broken) == 0 {
		return broken
	}
	from := rapid.IntRange(0, len(broken)-1).Draw(r, "from")
	to := rapid.IntRange(from, min(len(broken), from+rapid.SampledFrom([]int{1, 8, 512, 4096}).Draw(r, "size"))).Draw(r, "to")
	switch rapid.SampledFrom([]string{"zeros", "bytes", "cut", "gone", "twice"}).Draw(r, "damage") {
	case "zeros":
		clear(broken[from:to])
	case "bytes":
		copy(broken[from:to], rapid.SliceOfN(rapid.Byte(), to-from, to-from).Draw(r, "bytes"))
	case "cut":
		broken = broken[:from]
	case "gone":
		broken = slices.Delete(broken, from, to)
	case "twice":
		broken = slices.Insert(broken, to, broken[from:to]...)
	}
	return broken
}

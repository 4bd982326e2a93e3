package convert_test

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// allocated returns how many bytes run allocates.
func allocated(run func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// emptyParts are messages with n empty elements.
func emptyParts() map[string]func(n int) *bursarv1.SyncRequest {
	return map[string]func(int) *bursarv1.SyncRequest{
		"engines": func(n int) *bursarv1.SyncRequest {
			return &bursarv1.SyncRequest{Engines: slices.Repeat([]*bursarv1.EngineReport{{}}, n)}
		},
		"records of engines": func(n int) *bursarv1.SyncRequest {
			return &bursarv1.SyncRequest{Engines: slices.Repeat([]*bursarv1.EngineReport{{Grant: &bursarv1.Allocation{Process: &bursarv1.Process{}}}}, n)}
		},
		"ends": func(n int) *bursarv1.SyncRequest {
			return &bursarv1.SyncRequest{Ended: slices.Repeat([]*bursarv1.EngineEnd{{ExitStatus: &bursarv1.ExitStatus{}}}, n)}
		},
		"vetoes": func(n int) *bursarv1.SyncRequest {
			return &bursarv1.SyncRequest{Vetoes: slices.Repeat([]*bursarv1.Veto{{}}, n)}
		},
		"disks": func(n int) *bursarv1.SyncRequest {
			return &bursarv1.SyncRequest{Sample: &bursarv1.HostSample{Disks: slices.Repeat([]*bursarv1.DiskSample{{}}, n)}}
		},
		"parts": func(n int) *bursarv1.SyncRequest {
			return &bursarv1.SyncRequest{Capacity: &bursarv1.Resource{External: slices.Repeat([]*bursarv1.ExternalResource{{}}, n)}}
		},
		"applications": func(n int) *bursarv1.SyncRequest {
			return &bursarv1.SyncRequest{Engines: []*bursarv1.EngineReport{{Grant: &bursarv1.Allocation{ApplicationIds: slices.Repeat([]string{""}, n)}}}}
		},
		"labels": func(n int) *bursarv1.SyncRequest {
			labels := make(map[string]string, n)
			for i := range n {
				labels[strconv.Itoa(i)] = ""
			}
			return &bursarv1.SyncRequest{Engines: []*bursarv1.EngineReport{{Grant: &bursarv1.Allocation{Labels: labels}}}}
		},
	}
}

// A message that is far larger decoded than encoded is rejected before decoding, in either
// encoding.
func TestManyEmptyPartsAreRefusedBeforeTheyAreDecoded(t *testing.T) {
	const most = 4 << 20
	type codec interface {
		Unmarshal(text []byte, message any) error
	}
	for name, of := range emptyParts() {
		report := of(200_000)
		asBinary, err := proto.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		asJSON, err := protojson.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			codec

			text []byte
		}{{convert.Binary{MaxDecoded: most}, asBinary}, {convert.StrictJSON{MaxDecoded: most}, asJSON}} {
			used := allocated(func() { err = c.Unmarshal(c.text, &bursarv1.SyncRequest{}) })
			if err == nil || !strings.Contains(err.Error(), "want fewer elements") || used > 64<<10 {
				t.Errorf("%s, %T, %d bytes: %v, %d bytes were allocated", name, c.codec, len(c.text), err, used)
			}
		}
	}
}

// The estimate is close to the real memory: an accepted message takes at most four times as much.
func TestWhatIsDecodedKeepsToTheBound(t *testing.T) {
	const most = 1 << 20
	for name, of := range emptyParts() {
		var text []byte
		for n := 64_000; ; n = n * 3 / 4 { // roughly the largest accepted one
			var err error
			if text, err = proto.Marshal(of(n)); err != nil {
				t.Fatal(err)
			}
			if (convert.Binary{MaxDecoded: most}).Unmarshal(text, &bursarv1.SyncRequest{}) == nil {
				break
			}
		}
		used := allocated(func() { _ = proto.Unmarshal(text, &bursarv1.SyncRequest{}) })
		t.Logf("%s: %d bytes become %d", name, len(text), used)
		if used > 4*most {
			t.Errorf("%s: %d bytes become %d, want at most %d", name, len(text), used, 4*most)
		}
	}
}

// Real reports stay below the limit of eight times their own size. Rules, of which a request has at
// most 1 MiB, stay below half of the limit of thirty-two times.
func TestRealRequestsKeepFarFromTheBound(t *testing.T) {
	report, rules := &bursarv1.SyncRequest{Full: true}, &bursarv1.ApplyRequest{}
	resource := func() *bursarv1.Resource {
		return &bursarv1.Resource{MemoryBytes: proto.Int64(4 << 30), CpuMillis: proto.Int64(2000), Custom: map[string]int64{"gpu": 1}}
	}
	for i := range 4000 {
		now := timestamppb.Now()
		report.Engines = append(report.Engines, &bursarv1.EngineReport{
			AllocationId: fmt.Sprintf("%013d", i), Measured: resource(), UnreclaimableBytes: 3 << 30,
			Grant: &bursarv1.Allocation{
				Id: fmt.Sprintf("%013d", i), RequestId: fmt.Sprintf("request-%016d", i), State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, HostId: "host-0001",
				Labels:    map[string]string{"user": "alice", "creator": "IDE", "engineType": "spark-3.3"},
				Requested: resource(), Entitled: resource(), CreateTime: now, ReserveTime: now, ConfirmTime: now,
				Process: &bursarv1.Process{Pid: 4711, StartTime: 1 << 30, BootId: "5f2c1f4e-0000-4000-8000-000000000000"}, Caller: "alice@host-0001",
			},
		})
		rules.Quotas = append(rules.Quotas, &bursarv1.Quota{
			Selector: map[string]string{"user": fmt.Sprintf("user-%04d", i), "creator": "*"}, Limit: resource(), Guaranteed: resource(),
		})
	}
	for name, test := range map[string]struct {
		message proto.Message
		factor  int64
	}{"a full report": {report, 8}, "rules": {rules, 16}} {
		message := test.message
		text, err := proto.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		again := message.ProtoReflect().New().Interface()
		var decodes error
		used := allocated(func() { decodes = convert.Binary{MaxDecoded: test.factor * int64(len(text))}.Unmarshal(text, again) })
		t.Logf("%s: %d bytes become %d", name, len(text), used)
		if decodes != nil || !proto.Equal(message, again) {
			t.Errorf("%s of %d bytes: %v", name, len(text), decodes)
		}
		asJSON, err := protojson.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		if err := (convert.StrictJSON{MaxDecoded: test.factor * int64(len(asJSON))}).Unmarshal(asJSON, again); err != nil {
			t.Errorf("%s in JSON: %v", name, err)
		}
	}
}

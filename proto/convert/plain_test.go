package convert_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

func heartbeat() *bursarv1.SyncRequest {
	used := func() *bursarv1.Resource {
		return &bursarv1.Resource{MemoryBytes: new(int64(1 << 30)), CpuMillis: new(int64(700))}
	}
	return &bursarv1.SyncRequest{
		HostId: "host-1.example.org", BootId: "boot", Incarnation: 3, Sequence: 9, Epoch: 4, LedgerSequence: 8, Digest: 7,
		Sample: &bursarv1.HostSample{
			SampleTime: timestamppb.New(time.Unix(1_700_000_000, 0)), MemoryTotalBytes: new(int64(1 << 36)), MemoryAvailableBytes: new(int64(1 << 35)),
			Degraded: map[string]string{"psi": "not there"}, Disks: []*bursarv1.DiskSample{{Path: "/data", TotalBytes: 9, FreeBytes: 8}},
		},
		Engines: []*bursarv1.EngineReport{{AllocationId: "01j9zq4w6v8t2m5n7p00000001", Measured: used(), MeasuredPeak: used(), UnreclaimableBytes: 5}},
		Ended:   []*bursarv1.EngineEnd{}, Capacity: used(),
	}
}

func TestAUsualHeartbeatIsPlain(t *testing.T) {
	if !convert.IsPlain(heartbeat()) || !convert.IsPlain(&bursarv1.SyncRequest{HostId: "h"}) {
		t.Error("a usual heartbeat is not plain")
	}
	if convert.IsPlain(&bursarv1.AllocateRequest{}) || convert.IsPlain(nil) {
		t.Error("another request is plain")
	}
}

// A heartbeat with a fault in any field is left to the rules.
func TestWhatIsPlainKeepsToTheRules(t *testing.T) {
	base := heartbeat()
	base.Ended = []*bursarv1.EngineEnd{{AllocationId: "a"}}
	base.Vetoes = []*bursarv1.Veto{{AllocationId: "a"}}
	base.Engines[0].OverUse = []*bursarv1.OverUse{{Dimension: "memory"}}
	base.Capacity.External = []*bursarv1.ExternalResource{{Kind: "yarn", Path: "root"}}
	wrong, plain := 0, 0
	check := func(m *bursarv1.SyncRequest, what string) {
		err := protovalidate.Validate(m)
		if err != nil {
			wrong++
		}
		if convert.IsPlain(m) {
			plain++
			if err != nil {
				t.Errorf("%s: plain, and against the rules: %v", what, err)
			}
		}
	}
	for _, of := range []*bursarv1.SyncRequest{heartbeat(), base} {
		mutate(of.ProtoReflect(), "", func(what string) { check(proto.CloneOf(of), what) })
	}
	for _, id := range []string{"", "-a", ".", "a b", "a\n", "ä", "a_b", "a:b.c-d", strings.Repeat("a", 253), strings.Repeat("a", 254)} {
		check(&bursarv1.SyncRequest{HostId: id}, id)
	}
	many := &bursarv1.SyncRequest{HostId: "h", Engines: make([]*bursarv1.EngineReport, 100_001)}
	if convert.IsPlain(many) {
		t.Error("more engines than the rules allow are plain")
	}
	if wrong < 40 || plain < 40 {
		t.Errorf("%d messages against the rules and %d plain ones were tried; want more", wrong, plain)
	}
}

// mutate sets every field of a message, at any depth, to extreme values, one at a time.
func mutate(m protoreflect.Message, path string, try func(what string)) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		what := path + "." + string(field.Name())
		if string(field.FullName()) == "bursar.v1.EngineReport.grant" {
			continue // has no rules
		}
		had, before := m.Has(field), proto.Clone(m.Interface()).ProtoReflect().Get(field)
		switch {
		case field.IsMap():
			many := m.NewField(field)
			for n := range 40 {
				key := protoreflect.ValueOfString(strings.Repeat("k", n+1)).MapKey()
				value := field.MapValue().Default()
				if field.MapValue().Kind() == protoreflect.Int64Kind {
					value = protoreflect.ValueOfInt64(-1)
				}
				many.Map().Set(key, value)
			}
			m.Set(field, many)
			try(what + " has many")
		case field.IsList():
			for n := range m.Get(field).List().Len() {
				mutate(m.Get(field).List().Get(n).Message(), what, try)
			}
			many := m.NewField(field)
			for range 70 {
				many.List().Append(many.List().NewElement())
			}
			m.Set(field, many)
			try(what + " has many")
		case field.Message() != nil:
			if had && field.Message().FullName() != "google.protobuf.Timestamp" {
				mutate(m.Get(field).Message(), what, try)
			}
			continue
		default:
			for _, value := range extremes(field.Kind()) {
				m.Set(field, value)
				try(what + " is " + value.String()[:min(20, len(value.String()))])
			}
		}
		if m.Clear(field); had {
			m.Set(field, before)
		}
	}
}

func extremes(kind protoreflect.Kind) (list []protoreflect.Value) {
	switch kind { //nolint:exhaustive // the others have no extremes
	case protoreflect.StringKind:
		for _, n := range []int{0, 64, 65, 1024, 1025, 4096, 4097} {
			list = append(list, protoreflect.ValueOfString(strings.Repeat("x", n)))
		}
	case protoreflect.Int64Kind:
		for _, n := range []int64{math.MinInt64, -1, 0, 1<<53 - 1, 1 << 53, math.MaxInt64} {
			list = append(list, protoreflect.ValueOfInt64(n))
		}
	case protoreflect.Int32Kind:
		for _, n := range []int32{math.MinInt32, -1, 0, math.MaxInt32} {
			list = append(list, protoreflect.ValueOfInt32(n))
		}
	case protoreflect.EnumKind:
		for _, n := range []protoreflect.EnumNumber{-1, 0, 99} {
			list = append(list, protoreflect.ValueOfEnum(n))
		}
	}
	return list
}

// BenchmarkHeartbeat compares IsPlain with the rules for a heartbeat of 20 engines.
func BenchmarkHeartbeat(b *testing.B) {
	m := heartbeat()
	m.Ended, m.Capacity = nil, nil
	for range 19 {
		m.Engines = append(m.Engines, proto.CloneOf(m.GetEngines()[0]))
	}
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			if !convert.IsPlain(m) {
				b.Fatal("it is not plain")
			}
		}
	})
	b.Run("rules", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := protovalidate.Validate(m); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		data, err := proto.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if err := proto.Unmarshal(data, new(bursarv1.SyncRequest)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

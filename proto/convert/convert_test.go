package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

func vectors() *rapid.Generator[resource.Vector] {
	return rapid.Custom(func(t *rapid.T) resource.Vector {
		var v resource.Vector
		for _, dimension := range []string{resource.Memory, resource.CPU, resource.Instances, "gpu", "yarn.io/gpu"} {
			if rapid.Bool().Draw(t, dimension+" set") {
				v = v.With(dimension, rapid.OneOf(rapid.Int64Range(0, 2), rapid.Int64Range(0, resource.MaxQuantity)).Draw(t, dimension))
			}
		}
		return v
	})
}

func resources() *rapid.Generator[resource.Resource] {
	return rapid.Custom(func(t *rapid.T) resource.Resource {
		r := resource.Resource{Vector: vectors().Draw(t, "here")}
		for i := range rapid.IntRange(0, 3).Draw(t, "parts") {
			r = r.WithPart(resource.Address{Kind: "yarn", Cluster: "c", Path: fmt.Sprint("root.", i), Partition: "p"}, vectors().Draw(t, "there"))
		}
		return r
	})
}

func TestMessageAndJSONReadBackExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := resources().Draw(t, "r")
		m := ResourceToProto(r)
		if err := protovalidate.Validate(m); err != nil {
			t.Fatalf("%v is no valid message: %v", r, err)
		}
		back, err := ResourceFromProto(m)
		if err != nil || !back.Equal(r) {
			t.Fatalf("%v became %v, %v", r, back, err)
		}
		text, err := MarshalJSON(r)
		if err != nil || !json.Valid(text) {
			t.Fatalf("%v is %s, %v", r, text, err)
		}
		back, err = UnmarshalJSON(text)
		if err != nil || !back.Equal(r) {
			t.Fatalf("%v became %v by %s, %v", r, back, text, err)
		}
		if v, err := VectorFromProto(VectorToProto(r.Vector)); err != nil || !v.Equal(r.Vector) {
			t.Fatalf("%v became %v, %v", r.Vector, v, err)
		}
	})
}

func TestMessagesKeepUnsetAndZeroApart(t *testing.T) {
	m := ResourceToProto(resource.Resource{Vector: resource.Vector{}.WithMemory(0)})
	if diff := cmp.Diff(&bursarv1.Resource{MemoryBytes: proto.Int64(0)}, m, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r, err := ResourceFromProto(nil); err != nil || !r.IsUnset() {
		t.Errorf("no message is %v, %v", r, err)
	}
}

func TestPartsMayComeInAnyOrder(t *testing.T) {
	m := &bursarv1.Resource{External: []*bursarv1.ExternalResource{
		{Kind: "yarn", Path: "root.b", CpuMillis: proto.Int64(2)}, {Kind: "yarn", Path: "root.a", CpuMillis: proto.Int64(1)},
	}}
	r, err := ResourceFromProto(m)
	if err != nil || r.String() != "yarn::root.a,cpu=1m yarn::root.b,cpu=2m" {
		t.Errorf("%v, %v", r, err)
	}
}

// TestContractAndConversionAgree has messages that both this package and the API's own rules must
// reject.
func TestContractAndConversionAgree(t *testing.T) {
	many, names := &bursarv1.Resource{Custom: map[string]int64{}}, "abcdefghijklmnopq"
	for _, c := range names {
		many.Custom[string(c)] = 1
	}
	parts := &bursarv1.Resource{}
	for i := range resource.MaxExternal + 1 {
		parts.External = append(parts.External, &bursarv1.ExternalResource{Kind: "yarn", Path: fmt.Sprint(i)})
	}
	part := func(e *bursarv1.ExternalResource) *bursarv1.Resource {
		return &bursarv1.Resource{External: []*bursarv1.ExternalResource{e}}
	}
	for field, m := range map[string]*bursarv1.Resource{
		"memory":                   {MemoryBytes: proto.Int64(-1)},
		"cpu":                      {CpuMillis: proto.Int64(resource.MaxQuantity + 1)},
		"instances":                {Instances: proto.Int64(-1)},
		"gpu":                      {Custom: map[string]int64{"gpu": -1}},
		"custom":                   {Custom: map[string]int64{"g pu": 1}},
		"external":                 parts,
		"external[::a].kind":       part(&bursarv1.ExternalResource{Path: "a"}),
		"external[yarn::].path":    part(&bursarv1.ExternalResource{Kind: "yarn"}),
		"external[yarn::a].memory": part(&bursarv1.ExternalResource{Kind: "yarn", Path: "a", MemoryBytes: proto.Int64(-1)}),
		"external[yarn::a].custom": part(&bursarv1.ExternalResource{Kind: "yarn", Path: "a", Custom: map[string]int64{"1": 1}}),
		"external[yarn:" + strings.Repeat("c", 129) + ":a].cluster": part(&bursarv1.ExternalResource{Kind: "yarn", Path: "a", Cluster: strings.Repeat("c", 129)}),
	} {
		if err := protovalidate.Validate(m); err == nil {
			t.Errorf("%s: the contract allows %v", field, m)
		}
		r, err := ResourceFromProto(m)
		detail, ok := InvalidField(err)
		if !ok || detail.GetField() != field || detail.GetWant() == "" || !r.IsUnset() {
			t.Errorf("%s: %v with %v", field, r, err)
		}
	}
	if err := protovalidate.Validate(many); err == nil {
		t.Error("the contract allows 17 custom names")
	}
	if _, err := ResourceFromProto(many); err == nil {
		t.Error("17 custom names were taken")
	}
}

// TestConversionRefusesMore has messages that only this package can recognize as invalid.
func TestConversionRefusesMore(t *testing.T) {
	e := &bursarv1.ExternalResource{Kind: "yarn", Path: "a"}
	for field, m := range map[string]*bursarv1.Resource{
		"custom":            {Custom: map[string]int64{"memory": 1}},
		"external[yarn::a]": {External: []*bursarv1.ExternalResource{e, e}},
	} {
		var wrong *resource.FieldError
		if r, err := ResourceFromProto(m); !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%v: %v, %v", m, r, err)
		}
	}
	if v, err := VectorFromProto(&bursarv1.Resource{External: []*bursarv1.ExternalResource{e}}); err == nil {
		t.Errorf("a part outside became %v", v)
	}
}

func TestLabels(t *testing.T) {
	labels := map[string]string{"user": "alice", "creator": "IDE"}
	set, err := LabelsFromProto(labels)
	if err != nil || set.String() != "creator=IDE,user=alice" {
		t.Errorf("%v, %v", set, err)
	}
	if diff := cmp.Diff(labels, LabelsToProto(set)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err = LabelsFromProto(map[string]string{"user": "a\n"})
	if detail, ok := InvalidField(fmt.Errorf("wrapped: %w", err)); !ok || detail.GetField() != "labels[user]" || detail.GetValue() != "a\n" {
		t.Errorf("%v is told as %v", err, detail)
	}
	if detail, ok := InvalidField(errors.New("another")); ok {
		t.Errorf("another error is told as %v", detail)
	}
}

func TestNormalization(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := resource.Normalization{Minimum: vectors().Draw(t, "minimum"), Increment: vectors().Draw(t, "increment"), Maximum: vectors().Draw(t, "maximum")}
		back, err := NormalizationFromProto(NormalizationToProto(n))
		if valid := n.Validate() == nil; (err == nil) != valid {
			t.Fatalf("%+v: %v", n, err)
		}
		if err == nil && (!back.Minimum.Equal(n.Minimum) || !back.Increment.Equal(n.Increment) || !back.Maximum.Equal(n.Maximum)) {
			t.Fatalf("%+v became %+v", n, back)
		}
	})
	if m := NormalizationToProto(resource.Normalization{}); m != nil {
		t.Errorf("no rounding is %v", m)
	}
	_, err := NormalizationFromProto(&bursarv1.Normalization{Increment: &bursarv1.Resource{CpuMillis: proto.Int64(-1)}})
	if _, ok := InvalidField(err); !ok || !strings.Contains(err.Error(), "increment") {
		t.Errorf("a negative increment: %v", err)
	}
}

func FuzzUnmarshalJSON(f *testing.F) {
	f.Add([]byte(`{"memoryBytes":"4294967296","cpuMillis":2000,"custom":{"gpu":"1"}}`))
	f.Add([]byte(`{"external":[{"kind":"yarn","path":"root.a","instances":"1"}]}`))
	f.Add([]byte(`{"memoryBytes":-1,"unknown":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := UnmarshalJSON(text)
		if err != nil {
			if !r.IsUnset() {
				t.Fatalf("%v with %v", r, err)
			}
			return
		}
		m := &bursarv1.Resource{}
		if err := protojson.Unmarshal(text, m); err != nil {
			t.Fatal(err)
		}
		if err := protovalidate.Validate(m); err != nil {
			t.Fatalf("%s is against the contract, and was read as %v: %v", text, r, err)
		}
		written, err := MarshalJSON(r)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := UnmarshalJSON(written); err != nil || !back.Equal(r) {
			t.Fatalf("%v became %v, %v", r, back, err)
		}
	})
}

func BenchmarkResourceFromProto(b *testing.B) {
	m := &bursarv1.Resource{MemoryBytes: proto.Int64(4 << 30), CpuMillis: proto.Int64(2000), Custom: map[string]int64{"gpu": 1}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ResourceFromProto(m); err != nil {
			b.Fatal(err)
		}
	}
}

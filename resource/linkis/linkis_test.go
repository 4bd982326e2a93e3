package linkis

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/resource"
)

// fatal is the common interface of tests and properties.
type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// must returns the result of a call that must not fail.
func must[A, T any](t fatal, call func(A) (T, error), argument A) T {
	t.Helper()
	value, err := call(argument)
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	return value
}

// checkField fails unless err is a complete *resource.FieldError about that field.
func checkField(t *testing.T, err error, field string) {
	t.Helper()
	wrong, ok := errors.AsType[*resource.FieldError](err)
	if !ok {
		t.Fatalf("error %v is no FieldError; want one about %q", err, field)
	}
	if wrong.Field != field || wrong.Want == "" {
		t.Errorf("error is about %q: %v; want one about %q that says what would be right", wrong.Field, err, field)
	}
}

// quantities generates boundary values more often than chance would.
func quantities() *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.Int64Range(0, 5),
		rapid.Int64Range(0, resource.MaxQuantity),
		rapid.SampledFrom([]int64{0, 1, 999, 1000, 1001, 1 << 30, resource.MaxQuantity - 1, resource.MaxQuantity}),
	)
}

func yarnPart(v resource.Vector) resource.Resource {
	return resource.Resource{}.WithPart(resource.Address{Kind: "yarn", Path: "root.a"}, v)
}

func kubernetesPart(v resource.Vector) resource.Resource {
	return resource.Resource{}.WithPart(resource.Address{Kind: "kubernetes", Path: "team"}, v)
}

func with(r resource.Resource, here resource.Vector) resource.Resource {
	return resource.Resource{Vector: here, External: r.External}
}

// TestForms has, for every type, Linkis's text and its meaning.
func TestForms(t *testing.T) {
	driver := resource.Vector{}.WithMemory(4 << 30).WithCPU(2000).WithInstances(1)
	for _, test := range []struct {
		Type
		text string
		r    resource.Resource
	}{
		{Memory, `{"memory":4294967296}`, resource.Resource{Vector: resource.Vector{}.WithMemory(4 << 30)}},
		{CPU, `{"cores":2}`, resource.Resource{Vector: resource.Vector{}.WithCPU(2000)}},
		{Load, `{"memory":4294967296,"cores":0}`, resource.Resource{Vector: resource.Vector{}.WithMemory(4 << 30).WithCPU(0)}},
		{Instance, `{"cores":3,"instances":3}`, resource.Resource{Vector: resource.Vector{}.WithInstances(3)}},
		{LoadInstance, `{"memory":4294967296,"cores":2,"instances":1,"instance":1}`, resource.Resource{Vector: driver}},
		{
			Yarn, `{"queueMemory":4294967296,"queueCores":2,"queueInstances":1,"queueName":"root.a","applicationId":""}`,
			yarnPart(driver),
		},
		{
			DriverAndYarn, `{"loadInstanceResource":{"memory":4294967296,"cores":2,"instances":1,"instance":1},` +
				`"yarnResource":{"queueMemory":4294967296,"queueCores":2,"queueInstances":1,"queueName":"root.a","applicationId":""}}`,
			with(yarnPart(driver), driver),
		},
		{DriverAndYarn, `{"loadInstanceResource":{"memory":4294967296,"cores":2,"instances":1,"instance":1},"yarnResource":null}`, resource.Resource{Vector: driver}},
		{Kubernetes, `{"memory":4294967296,"cores":500,"namespace":"team"}`, kubernetesPart(resource.Vector{}.WithMemory(4 << 30).WithCPU(500))},
		{
			DriverAndKubernetes, `{"loadInstanceResource":{"memory":4294967296,"cores":2,"instances":1,"instance":1},` +
				`"kubernetesResource":{"memory":4294967296,"cores":500,"namespace":"team"}}`,
			with(kubernetesPart(resource.Vector{}.WithMemory(4<<30).WithCPU(500)), driver),
		},
		{Special, `{"resources":{"fpga":0,"gpu":2}}`, resource.Resource{Vector: resource.Vector{}.With("gpu", 2).With("fpga", 0)}},
		{Special, `{"resources":{}}`, resource.Resource{}},
		// Java's largest values mean unlimited.
		{Load, `{"memory":9223372036854775807,"cores":2147483647}`, resource.Resource{}},
		{LoadInstance, `{"memory":4294967296,"cores":2147483647,"instances":2147483647,"instance":2147483647}`, resource.Resource{Vector: resource.Vector{}.WithMemory(4 << 30)}},
		{Kubernetes, `{"memory":9223372036854775807,"cores":9223372036854775807,"namespace":"team"}`, kubernetesPart(resource.Vector{})},
	} {
		t.Run(string(test.Type), func(t *testing.T) {
			text, err := Marshal(test.r, test.Type)
			if err != nil || string(text) != test.text {
				t.Errorf("written: %s, %v\nwant     %s", text, err, test.text)
			}
			r, err := Unmarshal(test.Type, []byte(test.text))
			if err != nil || !r.Equal(test.r) {
				t.Errorf("read: %v, %v; want %v", r, err, test.r)
			}
		})
	}
}

func TestReadsWhatOtherVersionsWrite(t *testing.T) {
	for _, test := range []struct {
		name string
		Type
		text string
		want resource.Resource
	}{
		{"no alias for instances", LoadInstance, `{"memory":1,"cores":1,"instances":2}`, resource.Resource{Vector: resource.Vector{}.WithMemory(1).WithCPU(1000).WithInstances(2)}},
		{"only the alias", LoadInstance, `{"memory":1,"cores":1,"instance":2}`, resource.Resource{Vector: resource.Vector{}.WithMemory(1).WithCPU(1000).WithInstances(2)}},
		{"only cores for instances", Instance, `{"cores":2}`, resource.Resource{Vector: resource.Vector{}.WithInstances(2)}},
		{"fields that are not there are without limit", LoadInstance, `{"memory":1}`, resource.Resource{Vector: resource.Vector{}.WithMemory(1)}},
		{"an application id", Yarn, `{"queueMemory":1,"queueName":"root.a","applicationId":"application_1_2"}`, yarnPart(resource.Vector{}.WithMemory(1))},
		{"no queue name", Yarn, `{"queueMemory":1,"queueName":null}`, resource.Resource{}.WithPart(resource.Address{Kind: "yarn", Path: "default"}, resource.Vector{}.WithMemory(1))},
		{"no parts", DriverAndYarn, `{}`, resource.Resource{}},
		{"a getter that became a field", DriverAndKubernetes, `{"loadInstanceResource":{"memory":1},"kubernetesResource":null,"moduleOperate":true}`, resource.Resource{Vector: resource.Vector{}.WithMemory(1)}},
		{"doubles", Special, `{"resources":{"gpu":2.0,"fpga":1E1}}`, resource.Resource{Vector: resource.Vector{}.With("gpu", 2).With("fpga", 10)}},
		{"a double as large as may be", Memory, `{"memory":9007199254740991.0}`, resource.Resource{Vector: resource.Vector{}.WithMemory(resource.MaxQuantity)}},
		{"instances that the type lacks", Load, `{"memory":1,"cores":1,"instances":2,"instance":3}`, resource.Resource{Vector: resource.Vector{}.WithMemory(1).WithCPU(1000)}},
		{"case tells fields apart", Load, `{"Memory":1,"CORES":1}`, resource.Resource{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := Unmarshal(test.Type, []byte(test.text))
			if err != nil || !r.Equal(test.want) {
				t.Errorf("read: %v, %v; want %v", r, err, test.want)
			}
		})
	}
}

func TestRefusesWhatItCannotSay(t *testing.T) {
	part := "external[yarn::root.a]"
	for _, test := range []struct {
		name string
		r    resource.Resource
		Type
		field string
	}{
		{"half a core", resource.Resource{Vector: resource.Vector{}.WithCPU(1500)}, CPU, resource.CPU},
		{"half a core in a queue", yarnPart(resource.Vector{}.WithCPU(1500)), Yarn, resource.CPU},
		{"more than 32 bits of instances", resource.Resource{Vector: resource.Vector{}.WithInstances(math.MaxInt32)}, Instance, resource.Instances},
		{"more than 32 bits of cores", resource.Resource{Vector: resource.Vector{}.WithCPU(math.MaxInt32 * 1000)}, Load, resource.CPU},
		{"a dimension that the type lacks", resource.Resource{Vector: resource.Vector{}.WithMemory(1).WithCPU(0)}, Memory, resource.CPU},
		{"custom countables", resource.Resource{Vector: resource.Vector{}.WithMemory(1).With("gpu", 1)}, LoadInstance, "gpu"},
		{"memory among custom countables", resource.Resource{Vector: resource.Vector{}.WithMemory(1).With("gpu", 1)}, Special, resource.Memory},
		{"a part that the type lacks", yarnPart(resource.Vector{}), Load, part},
		{"a part of another kind", yarnPart(resource.Vector{}), Kubernetes, part},
		{"no part where the type is one", resource.Resource{}, Yarn, "external"},
		{"two parts", yarnPart(resource.Vector{}).WithPart(resource.Address{Kind: "yarn", Path: "root.b"}, resource.Vector{}), Yarn, "external"},
		{"a named cluster", resource.Resource{}.WithPart(resource.Address{Kind: "yarn", Cluster: "default", Path: "root.a"}, resource.Vector{}), Yarn, "external[yarn:default:root.a]"},
		{"custom countables of a queue", yarnPart(resource.Vector{}.With("gpu", 1)), Yarn, part + ".gpu"},
		{"instances of a namespace", kubernetesPart(resource.Vector{}.WithInstances(1)), Kubernetes, "external[kubernetes::team].instances"},
		{"a negative quantity", resource.Resource{Vector: resource.Vector{}.WithMemory(-1)}, Memory, resource.Memory},
		{"no such type", resource.Resource{}, "Disk", "resourceType"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Marshal(test.r, test.Type)
			checkField(t, err, test.field)
		})
	}
}

func TestRefusesWhatMakesNoSense(t *testing.T) {
	for _, test := range []struct {
		Type
		text, field string
	}{
		{Memory, `{"memory":-1}`, "memory"},
		{Memory, `{"memory":1.5}`, "memory"},
		{Memory, `{"memory":"1"}`, "memory"},
		{Memory, `{"memory":null}`, "memory"},
		{Memory, `{"memory":9007199254740992}`, "memory"},
		{Memory, `{"memory":1e300}`, "memory"},
		{CPU, `{"cores":9007199254741}`, "cores"},
		{CPU, `{"cores":2147483648}`, "cores"},
		{Instance, `{"cores":1,"instances":2}`, "cores"},
		{LoadInstance, `{"instances":1,"instance":2}`, "instance"},
		{Yarn, `{"queueName":1}`, "queueName"},
		{Yarn, `{"queueName":""}`, "external[yarn::].path"},
		{DriverAndYarn, `{"yarnResource":[]}`, "yarnResource"},
		{DriverAndYarn, `{"loadInstanceResource":1}`, "loadInstanceResource"},
		{Special, `{"resources":{"g u":1}}`, "custom"},
		{Special, `{"resources":{"memory":1}}`, "custom"},
		{Special, `{"resources":{"gpu":true}}`, "gpu"},
		{"Disk", `{}`, "resourceType"},
	} {
		r, err := Unmarshal(test.Type, []byte(test.text))
		checkField(t, err, test.field)
		if !r.IsUnset() {
			t.Errorf("%s was read as %v", test.text, r)
		}
	}
	for _, text := range []string{``, `[]`, `null x`, `{"memory":1`, `1`} {
		if r, err := Unmarshal(Memory, []byte(text)); err == nil {
			t.Errorf("%q was read as %v", text, r)
		}
	}
}

func TestParseType(t *testing.T) {
	for name, want := range map[string]Type{"Default": Load, "Load": Load, "DriverAndKubernetes": DriverAndKubernetes} {
		if got := must(t, ParseType, name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	for _, name := range []string{"", "load", "Disk"} {
		_, err := ParseType(name)
		checkField(t, err, "resourceType")
	}
}

func TestViewIsTheSmallestType(t *testing.T) {
	memory, cpu, instances := resource.Vector{}.WithMemory(1), resource.Vector{}.WithCPU(1000), resource.Vector{}.WithInstances(1)
	for _, test := range []struct {
		r    resource.Resource
		want Type
	}{
		{resource.Resource{}, Load},
		{resource.Resource{Vector: memory}, Memory},
		{resource.Resource{Vector: cpu}, CPU},
		{resource.Resource{Vector: memory.WithCPU(0)}, Load},
		{resource.Resource{Vector: instances}, Instance},
		{resource.Resource{Vector: memory.WithInstances(1)}, LoadInstance},
		{resource.Resource{Vector: resource.Vector{}.With("gpu", 1)}, Special},
		{yarnPart(memory), Yarn},
		{yarnPart(resource.Vector{}), Yarn},
		{with(yarnPart(memory), cpu), DriverAndYarn},
		{kubernetesPart(memory), Kubernetes},
		{with(kubernetesPart(memory), cpu), DriverAndKubernetes},
		{resource.Resource{Vector: memory.With("gpu", 1)}, ""},
		{with(yarnPart(memory), resource.Vector{}.With("gpu", 1)), ""},
		{yarnPart(memory).WithPart(resource.Address{Kind: "kubernetes", Path: "team"}, memory), ""},
		{kubernetesPart(instances), ""},
	} {
		if got := View(test.r); got != test.want {
			t.Errorf("%v is %q, want %q", test.r, got, test.want)
		}
	}
}

func TestCompleteSetsZerosOnly(t *testing.T) {
	r := with(yarnPart(resource.Vector{}.WithMemory(1)), resource.Vector{}.WithCPU(1000))
	got := DriverAndYarn.Complete(r)
	want := with(yarnPart(resource.Vector{}.WithMemory(1).WithCPU(0).WithInstances(0)), resource.Vector{}.WithMemory(0).WithCPU(1000).WithInstances(0))
	if !got.Equal(want) || !got.EqualTo(r) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
	}
	if r.External[0].Has(resource.CPU) {
		t.Error("Complete changed its argument")
	}
}

func types() []Type {
	var types []Type
	for _, s := range shapes() {
		types = append(types, s.Type)
	}
	return types
}

// sayable generates resources that the type can represent: its dimensions, whole cores, and less
// than 32 bits for a Java int.
func sayable(linkisType Type) *rapid.Generator[resource.Resource] {
	return rapid.Custom(func(t *rapid.T) resource.Resource {
		s := shapes()[slices.IndexFunc(shapes(), func(s shape) bool { return s.Type == linkisType })]
		draw := func(fixed uint8, millis bool) resource.Vector {
			var v resource.Vector
			if fixed&setMemory != 0 && rapid.Bool().Draw(t, "memory set") {
				v = v.WithMemory(quantities().Draw(t, "memory"))
			}
			if fixed&setCPU != 0 && rapid.Bool().Draw(t, "cpu set") {
				if v = v.WithCPU(rapid.Int64Range(0, math.MaxInt32-1).Draw(t, "cpu")); !millis {
					v = v.WithCPU(v.CPU() * 1000)
				}
			}
			if fixed&setInstances != 0 && rapid.Bool().Draw(t, "instances set") {
				v = v.WithInstances(rapid.Int64Range(0, math.MaxInt32-1).Draw(t, "instances"))
			}
			return v
		}
		r := resource.Resource{Vector: draw(s.here, false)}
		if s.custom {
			for _, dimension := range []string{"fpga", "gpu", "yarn.io/gpu"} {
				if rapid.Bool().Draw(t, dimension+" set") {
					r.Vector = r.With(dimension, quantities().Draw(t, dimension))
				}
			}
		}
		if s.kind != "" && (s.here == 0 || rapid.Bool().Draw(t, "part")) {
			path := rapid.StringMatching(`[a-z]{1,8}(\.[a-z]{1,5}){0,2}`).Draw(t, "path")
			r = r.WithPart(resource.Address{Kind: s.kind, Path: path}, draw(s.there, s.kind == kindKubernetes))
		}
		return r
	})
}

func TestRoundTripsBothWays(t *testing.T) {
	for _, linkisType := range types() {
		t.Run(string(linkisType), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := sayable(linkisType).Draw(t, "r")
				marshal := func(r resource.Resource) ([]byte, error) { return Marshal(r, linkisType) }
				unmarshal := func(text []byte) (resource.Resource, error) { return Unmarshal(linkisType, text) }
				text := must(t, marshal, r)
				back := must(t, unmarshal, text)
				if !back.Equal(r) {
					t.Fatalf("%v became %v by %s", r, back, text)
				}
				if again := must(t, marshal, back); string(again) != string(text) {
					t.Fatalf("%s became %s", text, again)
				}
				if view := View(r); view != "" {
					if _, err := Marshal(r, view); err != nil {
						t.Fatalf("%v is viewed as %s: %v", r, view, err)
					}
				}
			})
		})
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add("Memory", []byte(`{"memory":4294967296}`))
	f.Add("LoadInstance", []byte(`{"memory":9223372036854775807,"cores":2,"instances":1,"instance":1}`))
	f.Add("DriverAndYarn", []byte(`{"loadInstanceResource":{"memory":1},"yarnResource":{"queueMemory":1,"queueCores":2,"queueName":"root.a"}}`))
	f.Add("DriverAndKubernetes", []byte(`{"kubernetesResource":{"memory":1,"cores":500,"namespace":"team"}}`))
	f.Add("Special", []byte(`{"resources":{"gpu":2.0,"fpga":-1}}`))
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		linkisType, err := ParseType(name)
		if err != nil {
			return
		}
		r, err := Unmarshal(linkisType, text)
		if err != nil {
			if !r.IsUnset() {
				t.Fatalf("%s with %v", r, err)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%q is no JSON, and was read as %v", text, r)
		}
		written, err := Marshal(r, linkisType)
		if err != nil {
			t.Fatalf("%v was read from %s: %v", r, text, err)
		}
		if back, err := Unmarshal(linkisType, written); err != nil || !back.Equal(r) {
			t.Fatalf("%v became %v, %v", r, back, err)
		}
	})
}

package resource

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func yarnPart(v Vector) Resource {
	return Resource{}.WithPart(Address{Kind: "yarn", Path: "root.a"}, v)
}

func kubernetesPart(v Vector) Resource {
	return Resource{}.WithPart(Address{Kind: "kubernetes", Path: "team"}, v)
}

func with(r Resource, here Vector) Resource { return Resource{Vector: here, External: r.External} }

// TestLinkisForms has, for every type, the text that Linkis persists and what it says.
func TestLinkisForms(t *testing.T) {
	driver := Vector{}.WithMemory(4 << 30).WithCPU(2000).WithInstances(1)
	for _, test := range []struct {
		LinkisType
		text string
		r    Resource
	}{
		{LinkisMemory, `{"memory":4294967296}`, Resource{Vector: Vector{}.WithMemory(4 << 30)}},
		{LinkisCPU, `{"cores":2}`, Resource{Vector: Vector{}.WithCPU(2000)}},
		{LinkisLoad, `{"memory":4294967296,"cores":0}`, Resource{Vector: Vector{}.WithMemory(4 << 30).WithCPU(0)}},
		{LinkisInstance, `{"cores":3,"instances":3}`, Resource{Vector: Vector{}.WithInstances(3)}},
		{LinkisLoadInstance, `{"memory":4294967296,"cores":2,"instances":1,"instance":1}`, Resource{Vector: driver}},
		{
			LinkisYarn, `{"queueMemory":4294967296,"queueCores":2,"queueInstances":1,"queueName":"root.a","applicationId":""}`,
			yarnPart(driver),
		},
		{
			LinkisDriverAndYarn, `{"loadInstanceResource":{"memory":4294967296,"cores":2,"instances":1,"instance":1},` +
				`"yarnResource":{"queueMemory":4294967296,"queueCores":2,"queueInstances":1,"queueName":"root.a","applicationId":""}}`,
			with(yarnPart(driver), driver),
		},
		{LinkisDriverAndYarn, `{"loadInstanceResource":{"memory":4294967296,"cores":2,"instances":1,"instance":1},"yarnResource":null}`, Resource{Vector: driver}},
		{LinkisKubernetes, `{"memory":4294967296,"cores":500,"namespace":"team"}`, kubernetesPart(Vector{}.WithMemory(4 << 30).WithCPU(500))},
		{
			LinkisDriverAndKubernetes, `{"loadInstanceResource":{"memory":4294967296,"cores":2,"instances":1,"instance":1},` +
				`"kubernetesResource":{"memory":4294967296,"cores":500,"namespace":"team"}}`,
			with(kubernetesPart(Vector{}.WithMemory(4<<30).WithCPU(500)), driver),
		},
		{LinkisSpecial, `{"resources":{"fpga":0,"gpu":2}}`, Resource{Vector: Vector{}.With("gpu", 2).With("fpga", 0)}},
		{LinkisSpecial, `{"resources":{}}`, Resource{}},
		// Without limit, Java's largest values.
		{LinkisLoad, `{"memory":9223372036854775807,"cores":2147483647}`, Resource{}},
		{LinkisLoadInstance, `{"memory":4294967296,"cores":2147483647,"instances":2147483647,"instance":2147483647}`, Resource{Vector: Vector{}.WithMemory(4 << 30)}},
		{LinkisKubernetes, `{"memory":9223372036854775807,"cores":9223372036854775807,"namespace":"team"}`, kubernetesPart(Vector{})},
	} {
		t.Run(string(test.LinkisType), func(t *testing.T) {
			text, err := MarshalLinkis(test.r, test.LinkisType)
			if err != nil || string(text) != test.text {
				t.Errorf("written: %s, %v\nwant     %s", text, err, test.text)
			}
			r, err := UnmarshalLinkis(test.LinkisType, []byte(test.text))
			if err != nil || !r.Equal(test.r) {
				t.Errorf("read: %v, %v; want %v", r, err, test.r)
			}
		})
	}
}

func TestLinkisReadsWhatOtherVersionsWrite(t *testing.T) {
	for _, test := range []struct {
		name string
		LinkisType
		text string
		want Resource
	}{
		{"no alias for instances", LinkisLoadInstance, `{"memory":1,"cores":1,"instances":2}`, Resource{Vector: Vector{}.WithMemory(1).WithCPU(1000).WithInstances(2)}},
		{"only the alias", LinkisLoadInstance, `{"memory":1,"cores":1,"instance":2}`, Resource{Vector: Vector{}.WithMemory(1).WithCPU(1000).WithInstances(2)}},
		{"only cores for instances", LinkisInstance, `{"cores":2}`, Resource{Vector: Vector{}.WithInstances(2)}},
		{"fields that are not there are without limit", LinkisLoadInstance, `{"memory":1}`, Resource{Vector: Vector{}.WithMemory(1)}},
		{"an application id", LinkisYarn, `{"queueMemory":1,"queueName":"root.a","applicationId":"application_1_2"}`, yarnPart(Vector{}.WithMemory(1))},
		{"no queue name", LinkisYarn, `{"queueMemory":1,"queueName":null}`, Resource{}.WithPart(Address{Kind: "yarn", Path: "default"}, Vector{}.WithMemory(1))},
		{"no parts", LinkisDriverAndYarn, `{}`, Resource{}},
		{"a getter that became a field", LinkisDriverAndKubernetes, `{"loadInstanceResource":{"memory":1},"kubernetesResource":null,"moduleOperate":true}`, Resource{Vector: Vector{}.WithMemory(1)}},
		{"doubles", LinkisSpecial, `{"resources":{"gpu":2.0,"fpga":1E1}}`, Resource{Vector: Vector{}.With("gpu", 2).With("fpga", 10)}},
		{"a double as large as may be", LinkisMemory, `{"memory":9007199254740991.0}`, Resource{Vector: Vector{}.WithMemory(MaxQuantity)}},
		{"instances that the type lacks", LinkisLoad, `{"memory":1,"cores":1,"instances":2,"instance":3}`, Resource{Vector: Vector{}.WithMemory(1).WithCPU(1000)}},
		{"case tells fields apart", LinkisLoad, `{"Memory":1,"CORES":1}`, Resource{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := UnmarshalLinkis(test.LinkisType, []byte(test.text))
			if err != nil || !r.Equal(test.want) {
				t.Errorf("read: %v, %v; want %v", r, err, test.want)
			}
		})
	}
}

func TestLinkisRefusesWhatItCannotSay(t *testing.T) {
	part := "external[yarn::root.a]"
	for _, test := range []struct {
		name string
		r    Resource
		LinkisType
		field string
	}{
		{"half a core", Resource{Vector: Vector{}.WithCPU(1500)}, LinkisCPU, CPU},
		{"half a core in a queue", yarnPart(Vector{}.WithCPU(1500)), LinkisYarn, CPU},
		{"more than 32 bits of instances", Resource{Vector: Vector{}.WithInstances(math.MaxInt32)}, LinkisInstance, Instances},
		{"more than 32 bits of cores", Resource{Vector: Vector{}.WithCPU(math.MaxInt32 * 1000)}, LinkisLoad, CPU},
		{"a dimension that the type lacks", Resource{Vector: Vector{}.WithMemory(1).WithCPU(0)}, LinkisMemory, CPU},
		{"custom countables", Resource{Vector: Vector{}.WithMemory(1).With("gpu", 1)}, LinkisLoadInstance, "gpu"},
		{"memory among custom countables", Resource{Vector: Vector{}.WithMemory(1).With("gpu", 1)}, LinkisSpecial, Memory},
		{"a part that the type lacks", yarnPart(Vector{}), LinkisLoad, part},
		{"a part of another kind", yarnPart(Vector{}), LinkisKubernetes, part},
		{"no part where the type is one", Resource{}, LinkisYarn, "external"},
		{"two parts", yarnPart(Vector{}).WithPart(Address{Kind: "yarn", Path: "root.b"}, Vector{}), LinkisYarn, "external"},
		{"a named cluster", Resource{}.WithPart(queue("root.a"), Vector{}), LinkisYarn, "external[yarn:default:root.a]"},
		{"custom countables of a queue", yarnPart(Vector{}.With("gpu", 1)), LinkisYarn, part + ".gpu"},
		{"instances of a namespace", kubernetesPart(Vector{}.WithInstances(1)), LinkisKubernetes, "external[kubernetes::team].instances"},
		{"a negative quantity", Resource{Vector: Vector{}.WithMemory(-1)}, LinkisMemory, Memory},
		{"no such type", Resource{}, "Disk", "resourceType"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := MarshalLinkis(test.r, test.LinkisType)
			checkField(t, err, test.field)
		})
	}
}

func TestLinkisRefusesWhatMakesNoSense(t *testing.T) {
	for _, test := range []struct {
		LinkisType
		text, field string
	}{
		{LinkisMemory, `{"memory":-1}`, "memory"},
		{LinkisMemory, `{"memory":1.5}`, "memory"},
		{LinkisMemory, `{"memory":"1"}`, "memory"},
		{LinkisMemory, `{"memory":null}`, "memory"},
		{LinkisMemory, `{"memory":9007199254740992}`, "memory"},
		{LinkisMemory, `{"memory":1e300}`, "memory"},
		{LinkisCPU, `{"cores":9007199254741}`, "cores"},
		{LinkisCPU, `{"cores":2147483648}`, "cores"},
		{LinkisInstance, `{"cores":1,"instances":2}`, "cores"},
		{LinkisLoadInstance, `{"instances":1,"instance":2}`, "instance"},
		{LinkisYarn, `{"queueName":1}`, "queueName"},
		{LinkisYarn, `{"queueName":""}`, "external[yarn::].path"},
		{LinkisDriverAndYarn, `{"yarnResource":[]}`, "yarnResource"},
		{LinkisDriverAndYarn, `{"loadInstanceResource":1}`, "loadInstanceResource"},
		{LinkisSpecial, `{"resources":{"g u":1}}`, "custom"},
		{LinkisSpecial, `{"resources":{"memory":1}}`, "custom"},
		{LinkisSpecial, `{"resources":{"gpu":true}}`, "gpu"},
		{"Disk", `{}`, "resourceType"},
	} {
		r, err := UnmarshalLinkis(test.LinkisType, []byte(test.text))
		checkField(t, err, test.field)
		if !r.IsUnset() {
			t.Errorf("%s was read as %v", test.text, r)
		}
	}
	for _, text := range []string{``, `[]`, `null x`, `{"memory":1`, `1`} {
		if r, err := UnmarshalLinkis(LinkisMemory, []byte(text)); err == nil {
			t.Errorf("%q was read as %v", text, r)
		}
	}
}

func TestParseLinkisType(t *testing.T) {
	for name, want := range map[string]LinkisType{"Default": LinkisLoad, "Load": LinkisLoad, "DriverAndKubernetes": LinkisDriverAndKubernetes} {
		if got := must(t, ParseLinkisType, name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	for _, name := range []string{"", "load", "Disk"} {
		_, err := ParseLinkisType(name)
		checkField(t, err, "resourceType")
	}
}

func TestViewIsTheSmallestType(t *testing.T) {
	memory, cpu, instances := Vector{}.WithMemory(1), Vector{}.WithCPU(1000), Vector{}.WithInstances(1)
	for _, test := range []struct {
		r    Resource
		want LinkisType
	}{
		{Resource{}, LinkisLoad},
		{Resource{Vector: memory}, LinkisMemory},
		{Resource{Vector: cpu}, LinkisCPU},
		{Resource{Vector: memory.WithCPU(0)}, LinkisLoad},
		{Resource{Vector: instances}, LinkisInstance},
		{Resource{Vector: memory.WithInstances(1)}, LinkisLoadInstance},
		{Resource{Vector: Vector{}.With("gpu", 1)}, LinkisSpecial},
		{yarnPart(memory), LinkisYarn},
		{yarnPart(Vector{}), LinkisYarn},
		{with(yarnPart(memory), cpu), LinkisDriverAndYarn},
		{kubernetesPart(memory), LinkisKubernetes},
		{with(kubernetesPart(memory), cpu), LinkisDriverAndKubernetes},
		{Resource{Vector: memory.With("gpu", 1)}, ""},
		{with(yarnPart(memory), Vector{}.With("gpu", 1)), ""},
		{yarnPart(memory).WithPart(Address{Kind: "kubernetes", Path: "team"}, memory), ""},
		{kubernetesPart(instances), ""},
	} {
		if got := View(test.r); got != test.want {
			t.Errorf("%v is %q, want %q", test.r, got, test.want)
		}
	}
}

func TestCompleteSetsZerosOnly(t *testing.T) {
	r := with(yarnPart(Vector{}.WithMemory(1)), Vector{}.WithCPU(1000))
	got := LinkisDriverAndYarn.Complete(r)
	want := with(yarnPart(Vector{}.WithMemory(1).WithCPU(0).WithInstances(0)), Vector{}.WithMemory(0).WithCPU(1000).WithInstances(0))
	if !got.Equal(want) || !got.EqualTo(r) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
	}
	if r.External[0].Has(CPU) {
		t.Error("Complete changed its argument")
	}
}

func linkisTypes() []LinkisType {
	var types []LinkisType
	for _, s := range shapes() {
		types = append(types, s.LinkisType)
	}
	return types
}

// sayable draws resources that the type can say: its dimensions, whole cores, and less than 32 bits where Java has an int.
func sayable(linkisType LinkisType) *rapid.Generator[Resource] {
	return rapid.Custom(func(t *rapid.T) Resource {
		s := shapes()[slices.IndexFunc(shapes(), func(s shape) bool { return s.LinkisType == linkisType })]
		draw := func(fixed uint8, millis bool) Vector {
			var v Vector
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
		r := Resource{Vector: draw(s.here, false)}
		if s.custom {
			r.Vector = vectorsOf("fpga", "gpu", "yarn.io/gpu").Draw(t, "custom")
		}
		if s.kind != "" && (s.here == 0 || rapid.Bool().Draw(t, "part")) {
			path := rapid.StringMatching(`[a-z]{1,8}(\.[a-z]{1,5}){0,2}`).Draw(t, "path")
			r = r.WithPart(Address{Kind: s.kind, Path: path}, draw(s.there, s.kind == kindKubernetes))
		}
		return r
	})
}

func TestLinkisRoundTripsBothWays(t *testing.T) {
	for _, linkisType := range linkisTypes() {
		t.Run(string(linkisType), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := sayable(linkisType).Draw(t, "r")
				marshal := func(r Resource) ([]byte, error) { return MarshalLinkis(r, linkisType) }
				unmarshal := func(text []byte) (Resource, error) { return UnmarshalLinkis(linkisType, text) }
				text := must(t, marshal, r)
				back := must(t, unmarshal, text)
				if !back.Equal(r) {
					t.Fatalf("%v became %v by %s", r, back, text)
				}
				if again := must(t, marshal, back); string(again) != string(text) {
					t.Fatalf("%s became %s", text, again)
				}
				if view := View(r); view != "" {
					if _, err := MarshalLinkis(r, view); err != nil {
						t.Fatalf("%v is viewed as %s: %v", r, view, err)
					}
				}
			})
		})
	}
}

func FuzzUnmarshalLinkis(f *testing.F) {
	f.Add("Memory", []byte(`{"memory":4294967296}`))
	f.Add("LoadInstance", []byte(`{"memory":9223372036854775807,"cores":2,"instances":1,"instance":1}`))
	f.Add("DriverAndYarn", []byte(`{"loadInstanceResource":{"memory":1},"yarnResource":{"queueMemory":1,"queueCores":2,"queueName":"root.a"}}`))
	f.Add("DriverAndKubernetes", []byte(`{"kubernetesResource":{"memory":1,"cores":500,"namespace":"team"}}`))
	f.Add("Special", []byte(`{"resources":{"gpu":2.0,"fpga":-1}}`))
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		linkisType, err := ParseLinkisType(name)
		if err != nil {
			return
		}
		r, err := UnmarshalLinkis(linkisType, text)
		if err != nil {
			if !r.IsUnset() {
				t.Fatalf("%s with %v", r, err)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%q is no JSON, and was read as %v", text, r)
		}
		written, err := MarshalLinkis(r, linkisType)
		if err != nil {
			t.Fatalf("%v was read from %s: %v", r, text, err)
		}
		if back, err := UnmarshalLinkis(linkisType, written); err != nil || !back.Equal(r) {
			t.Fatalf("%v became %v, %v", r, back, err)
		}
	})
}

package resource

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestUnsetIsNotZero(t *testing.T) {
	var none Vector
	zeros := none.WithMemory(0).WithCPU(0).WithInstances(0).With("gpu", 0)

	if !none.IsUnset() || zeros.IsUnset() {
		t.Error("IsUnset must tell nothing set from zeros")
	}
	if !none.IsZero() || !zeros.IsZero() {
		t.Error("both ask for nothing")
	}
	if none.Equal(zeros) {
		t.Error("Equal must tell them apart")
	}
	if !none.EqualTo(zeros) {
		t.Error("EqualTo must not")
	}
	for _, dimension := range []string{Memory, CPU, Instances, "gpu"} {
		if none.Has(dimension) || !zeros.Has(dimension) {
			t.Errorf("Has(%q) = %t and %t", dimension, none.Has(dimension), zeros.Has(dimension))
		}
		if quantity, set := zeros.Get(dimension); quantity != 0 || !set {
			t.Errorf("Get(%q) = %d, %t", dimension, quantity, set)
		}
	}
	for _, one := range []Vector{none.WithMemory(1), none.WithCPU(1), none.WithInstances(1), none.With("gpu", 1)} {
		if one.IsZero() {
			t.Errorf("%v asks for something", one)
		}
	}
}

func TestWithAndWithoutAreAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v Vector
		want := model{}
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			before, kept := v, modelOf(v)
			dimension := rapid.SampledFrom(names()).Draw(t, "dimension")
			if rapid.Bool().Draw(t, "set") {
				quantity := quantities().Draw(t, "quantity")
				v, want[dimension] = v.With(dimension, quantity), quantity
			} else {
				v = v.Without(dimension)
				delete(want, dimension)
			}
			if diff := cmp.Diff(want, modelOf(v)); diff != "" {
				t.Fatalf("after %s (-want +got):\n%s", dimension, diff)
			}
			if !maps.Equal(kept, modelOf(before)) {
				t.Fatalf("the vector it was made from changed: %v", before)
			}
		}
		if v.Memory() != want[Memory] || v.CPU() != want[CPU] || v.Instances() != want[Instances] {
			t.Fatalf("accessors of %v differ from %v", v, want)
		}
	})
}

func TestAllYieldsFixedDimensionsThenCustomOnesByName(t *testing.T) {
	v := Vector{}.With("tpu", 1).With("gpu", 2).WithInstances(3).WithCPU(4).WithMemory(5)
	var order []string
	for dimension := range v.All() {
		order = append(order, dimension)
	}
	if diff := cmp.Diff([]string{Memory, CPU, Instances, "gpu", "tpu"}, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for stop := range order { // a loop may end anywhere
		var seen []string
		for dimension := range v.All() {
			if seen = append(seen, dimension); len(seen) == stop+1 {
				break
			}
		}
		if !slices.Equal(seen, order[:stop+1]) {
			t.Errorf("stopped after %d: %v", stop+1, seen)
		}
	}
	if diff := cmp.Diff([]Quantity{{"gpu", 2}, {"tpu", 1}}, v.Custom()); diff != "" {
		t.Errorf("Custom (-want +got):\n%s", diff)
	}
}

func TestEqualIsEqualityOfModels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, w := vectors().Draw(t, "v"), vectors().Draw(t, "w")
		if got, want := v.Equal(w), maps.Equal(modelOf(v), modelOf(w)); got != want {
			t.Fatalf("%v.Equal(%v) = %t", v, w, got)
		}
	})
}

func TestValidateRefusesWhatMayNotComeIn(t *testing.T) {
	var enough, tooMany Vector
	for i := range MaxCustom + 1 {
		enough, tooMany = tooMany, tooMany.With(string(rune('a'+i)), 1)
	}
	for _, test := range []struct {
		name  string
		v     Vector
		field string // "": it is fine
	}{
		{"nothing set", Vector{}, ""},
		{"the largest quantities", Vector{}.WithMemory(MaxQuantity).WithCPU(MaxQuantity).WithInstances(MaxQuantity).With("gpu", MaxQuantity), ""},
		{"a longest name", Vector{}.With("a"+string(make63('b'))[1:], 1), ""},
		{"all characters of a name", Vector{}.With("azAZ09_./-", 1).With("z", 1).With("A", 1).With("Z", 1), ""},
		{"as many names as there may be", enough, ""},
		{"negative memory", Vector{}.WithMemory(-1), Memory},
		{"negative cpu", Vector{}.WithCPU(-1), CPU},
		{"negative instances", Vector{}.WithInstances(-1), Instances},
		{"negative custom", Vector{}.With("gpu", -1), "gpu"},
		{"too much memory", Vector{}.WithMemory(MaxQuantity + 1), Memory},
		{"too much custom", Vector{}.With("gpu", MaxQuantity+1), "gpu"},
		{"a name with a space", Vector{}.With("g p", 1), "custom"},
		{"a name that begins with a digit", Vector{}.With("1g", 1), "custom"},
		{"an empty name", Vector{}.With("", 1), "custom"},
		{"a name too long", Vector{}.With(string(make63('a'))+"a", 1), "custom"},
		{"a name that is not ASCII", Vector{}.With("größe", 1), "custom"},
		{"too many names", tooMany, "custom"},
	} {
		t.Run(test.name, func(t *testing.T) { checkField(t, test.v.Validate(), test.field) })
	}
}

func TestARefusalHasTheQuantityInItsDigits(t *testing.T) {
	var wrong *FieldError
	if err := (Vector{}).With("gpu", -12).Validate(); !errors.As(err, &wrong) || wrong.Value != "-12" {
		t.Errorf("-12 gpus: %v", err)
	}
}

func TestFixedNamesAreNoCustomNames(t *testing.T) {
	for _, name := range []string{Memory, CPU, Instances} {
		v := Vector{}.WithCustom(map[string]int64{name: 1})
		if v.Memory()+v.CPU()+v.Instances() != 0 {
			t.Errorf("a custom %s became the fixed dimension: %v", name, v)
		}
		checkField(t, v.Validate(), "custom")
	}
}

func TestWithCustomIsWithForEach(t *testing.T) {
	v := Vector{}.WithMemory(1).With("gpu", 1).With("fpga", 2)
	got := v.WithCustom(map[string]int64{"tpu": 3, "gpu": 4, "a": 5})
	if want := v.With("tpu", 3).With("gpu", 4).With("a", 5); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := v.WithCustom(nil); !got.Equal(v) {
		t.Errorf("nothing more made %v of %v", got, v)
	}
}

func make63(c byte) []byte { return slices.Repeat([]byte{c}, 63) }

// checkField fails unless err is a complete *FieldError about that field, or nil if the field is
// "".
func checkField(t *testing.T, err error, field string) {
	t.Helper()
	if field == "" {
		if err != nil {
			t.Errorf("unexpected error: %v", err)
		}
		return
	}
	var wrong *FieldError
	if !errors.As(err, &wrong) {
		t.Fatalf("error %v is no FieldError; want one about %q", err, field)
	}
	if wrong.Field != field || wrong.Want == "" {
		t.Errorf("error is about %q: %v; want one about %q that says what would be right", wrong.Field, err, field)
	}
}

package resource

import (
	"testing"

	"pgregory.net/rapid"
)

func TestNormalization(t *testing.T) {
	rule := Normalization{
		Minimum:   Vector{}.WithMemory(1 << 30).WithInstances(1),
		Increment: Vector{}.WithMemory(512<<20).WithCPU(1000).With("gpu", 0),
		Maximum:   Vector{}.WithMemory(8<<30 + 1).WithCPU(8000),
	}
	for _, test := range []struct {
		name          string
		request, want Vector
	}{
		{"nothing is raised to the minimum", Vector{}, Vector{}.WithMemory(1 << 30).WithInstances(1)},
		{"zero is raised to the minimum", Vector{}.WithMemory(0).WithInstances(0), Vector{}.WithMemory(1 << 30).WithInstances(1)},
		{"a step above the minimum", Vector{}.WithMemory(1<<30 + 1).WithInstances(1), Vector{}.WithMemory(3 << 29).WithInstances(1)},
		{"a whole step stays", Vector{}.WithMemory(3 << 29).WithInstances(3), Vector{}.WithMemory(3 << 29).WithInstances(3)},
		{"without a minimum the steps begin at zero", Vector{}.WithCPU(1).WithMemory(1 << 30).WithInstances(1), Vector{}.WithMemory(1 << 30).WithCPU(1000).WithInstances(1)},
		{"zero stays zero where there is no minimum", Vector{}.WithCPU(0).WithMemory(1 << 30).WithInstances(1), Vector{}.WithMemory(1 << 30).WithCPU(0).WithInstances(1)},
		{"rounding stops at the maximum", Vector{}.WithMemory(8<<30 + 1).WithInstances(1), Vector{}.WithMemory(8<<30 + 1).WithInstances(1)},
		{"a step of zero is none", Vector{}.WithMemory(1<<30).WithInstances(1).With("gpu", 3), Vector{}.WithMemory(1<<30).WithInstances(1).With("gpu", 3)},
		{"other dimensions are left alone", Vector{}.WithMemory(1<<30).WithInstances(1).With("tpu", 7), Vector{}.WithMemory(1<<30).WithInstances(1).With("tpu", 7)},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := must(t, rule.Apply, test.request); !got.Equal(test.want) {
				t.Errorf("%v became %v, want %v", test.request, got, test.want)
			}
		})
	}
}

// The figures are from Hadoop's own tests: TestSchedulerUtils, testNormalizeRequest and
// testNormalizeRequestWithDominantResourceCalculator (3.3), with a cluster's defaults (minimum and
// increment 1024 MiB and one vcore, maximum 8192). One differs: Hadoop rejects a request above the
// maximum in an earlier check.
func TestNormalizationIsThatOfYARN(t *testing.T) {
	const mib = 1 << 20
	of := func(memory, cores int64) Vector { return Vector{}.WithMemory(memory * mib).WithCPU(cores * 1000) }
	capacity := Normalization{Minimum: of(1024, 1), Increment: of(1024, 1), Maximum: of(8192, 10)}
	odd := capacity // a maximum that is not a multiple
	odd.Maximum = of(8192-10, 10)
	fair := Normalization{Minimum: of(1000, 1), Increment: of(512, 2), Maximum: of(8192, 10)} // increment-allocation
	for _, test := range []struct {
		name          string
		rule          Normalization
		request, want Vector
	}{
		{"zero is the minimum", capacity, of(0, 0), of(1024, 1)},
		{"a multiple stays", capacity, of(2048, 2), of(2048, 2)},
		{"ten more is the next multiple", capacity, of(1024+10, 1), of(2048, 1)},
		{"the maximum stays", capacity, of(8192, 10), of(8192, 10)},
		{"ten less than the maximum is the maximum", capacity, of(8192-10, 10), of(8192, 10)},
		{"rounding stops at a maximum that is no multiple", odd, of(8192-100, 10), of(8192-10, 10)},
		{"a minimum that is no multiple is rounded up too", fair, of(0, 0), of(1024, 2)},
		{"the steps begin at zero, not at the minimum", fair, of(1025, 3), of(1536, 4)},
		{"and so for what the request does not set", fair, Vector{}, of(1024, 2)},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := must(t, test.rule.Apply, test.request); !got.Equal(test.want) {
				t.Errorf("%v became %v, want %v", test.request, got, test.want)
			}
		})
	}
}

func TestNormalizationRefusesMoreThanTheMaximum(t *testing.T) {
	rule := Normalization{Maximum: Vector{}.WithMemory(1<<30).With("gpu", 0)}
	for field, request := range map[string]Vector{
		Memory: Vector{}.WithMemory(1<<30 + 1),
		"gpu":  Vector{}.With("gpu", 1),
		CPU:    Vector{}.WithCPU(-1),
	} {
		_, err := rule.Apply(request)
		checkField(t, err, field)
	}
	_, err := Normalization{Increment: Vector{}.WithMemory(1 << 40)}.Apply(Vector{}.WithMemory(MaxQuantity))
	checkField(t, err, Memory) // rounded above the largest quantity
}

func TestNormalizationIsChecked(t *testing.T) {
	for field, rule := range map[string]Normalization{
		"":                  {Minimum: Vector{}.WithMemory(1), Maximum: Vector{}.WithMemory(1)},
		"minimum.memory":    {Minimum: Vector{}.WithMemory(2), Maximum: Vector{}.WithMemory(1)},
		"increment.cpu":     {Increment: Vector{}.WithCPU(-1)},
		"maximum.instances": {Maximum: Vector{}.WithInstances(MaxQuantity + 1)},
	} {
		checkField(t, rule.Validate(), field)
	}
}

func TestNormalizationLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := Normalization{
			Minimum:   vectors().Draw(t, "minimum"),
			Increment: vectors().Draw(t, "increment"),
			Maximum:   vectors().Draw(t, "maximum"),
		}
		request := vectors().Draw(t, "request")
		if rule.Validate() != nil {
			return
		}
		got, err := rule.Apply(request)
		if err != nil {
			if withinLimit(request, rule.Maximum) && sumFits(request, rule.Minimum, rule.Increment) {
				t.Fatalf("%v under %+v: %v", request, rule, err)
			}
			return
		}
		again := must(t, rule.Apply, got)
		if !again.Equal(got) {
			t.Fatalf("%v became %v, and then %v", request, got, again)
		}
		if got.LessThan(request) || !request.NotMoreThan(got) || !rule.Minimum.NotMoreThan(got) || !withinLimit(got, rule.Maximum) {
			t.Fatalf("%v became %v under %+v", request, got, rule)
		}
	})
}

// withinLimit reports whether v is within limit in each dimension that limit lists.
func withinLimit(v, limit Vector) bool {
	for dimension, most := range limit.All() {
		if quantity, _ := v.Get(dimension); quantity > most {
			return false
		}
	}
	return true
}

// sumFits reports whether rounding cannot leave the range.
func sumFits(vectors ...Vector) bool {
	var sum Sum
	for _, v := range vectors {
		if sum.Add(v) != nil {
			return false
		}
	}
	return sum.Vector().Validate() == nil
}

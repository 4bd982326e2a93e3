package resource

import (
	"maps"

	"pgregory.net/rapid"
)

// names returns all dimensions that the generators use.
func names() []string {
	return []string{Memory, CPU, Instances, "fpga", "gpu", "licence", "yarn.io/gpu"}
}

// quantities generates boundary values more often than chance would.
func quantities() *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.Int64Range(0, 5),
		rapid.Int64Range(0, MaxQuantity),
		rapid.SampledFrom([]int64{0, 1, 999, 1000, 1001, 1 << 30, MaxQuantity - 1, MaxQuantity}),
	)
}

func vectors() *rapid.Generator[Vector] { return vectorsOf(names()...) }

func vectorsOf(dimensions ...string) *rapid.Generator[Vector] {
	return rapid.Custom(func(t *rapid.T) Vector {
		var v Vector
		for _, dimension := range dimensions {
			if rapid.Bool().Draw(t, dimension+" set") {
				v = v.With(dimension, quantities().Draw(t, dimension))
			}
		}
		return v
	})
}

func resources() *rapid.Generator[Resource] {
	return rapid.Custom(func(t *rapid.T) Resource {
		r := Resource{Vector: vectors().Draw(t, "here")}
		for _, at := range []Address{
			{Kind: "yarn", Path: "root.a"},
			{Kind: "yarn", Path: "root.a", Partition: "gpu"},
			{Kind: "kubernetes", Cluster: "blue", Path: "team"},
		} {
			if rapid.Bool().Draw(t, at.String()) {
				r = r.WithPart(at, vectors().Draw(t, at.String()))
			}
		}
		return r
	})
}

// model is a slow, obvious vector.
type model map[string]int64

func modelOf(v Vector) model { return model(maps.Collect(v.All())) }

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

// succeed fails on an error.
func succeed(t fatal, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

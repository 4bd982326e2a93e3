package resource_test

import (
	"fmt"

	"github.com/bursar/bursar/resource"
)

// An account's balance is a Sum, which is never negative in any dimension.
func Example() {
	var free resource.Sum
	host, _ := resource.ParseVector(map[string]string{"memory": "8GiB", "cpu": "4", "gpu": "1"})
	request, _ := resource.ParseVector(map[string]string{"memory": "6GiB", "cpu": "500m", "gpu": "0"})

	_ = free.Add(host)
	for range 2 {
		if free.Minus(request) == nil {
			fmt.Println("granted; left:", free.Vector())
		} else {
			fmt.Println("does not fit:", request)
		}
	}
	// Output:
	// granted; left: memory=2GiB,cpu=3500m,gpu=1
	// does not fit: memory=6GiB,cpu=500m,gpu=0
}

// Two vectors may be incomparable.
func ExampleVector_MoreThan() {
	v := resource.Vector{}.WithMemory(1 << 30).WithCPU(5000)
	w := resource.Vector{}.WithMemory(2 << 30).WithCPU(1000)
	fmt.Println(v.MoreThan(w), v.LessThan(w), v.EqualTo(w))
	// Output: false false false
}

// Requests are raised to the minimum and then to whole increments above it.
func ExampleNormalization() {
	rule := resource.Normalization{
		Minimum:   resource.Vector{}.WithMemory(1 << 30),
		Increment: resource.Vector{}.WithMemory(512 << 20),
		Maximum:   resource.Vector{}.WithMemory(8 << 30),
	}
	for _, text := range []string{"100MiB", "1.2GiB", "9GiB"} {
		request, _ := resource.ParseVector(map[string]string{"memory": text})
		fmt.Println(rule.Apply(request))
	}
	// Output:
	// memory=1GiB <nil>
	// memory=1.5GiB <nil>
	// none memory: "9GiB": want at most 8GiB
}

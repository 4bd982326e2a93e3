package ledger

import (
	"fmt"

	"github.com/bursar/bursar/resource"
)

// checkAsked refuses a request for an engine of no instances, which no quota of instances would
// hold. Memory and cpu may be zero, for an engine in another cluster has none here, and so may a
// custom countable: some clients send all that they know of. The error is a *FieldError.
func checkAsked(asked resource.Vector) error {
	if n, set := asked.Get(resource.Instances); set && n < 1 {
		return &FieldError{"resource." + resource.Instances, fmt.Sprint(n), "1 or more, or nothing, which is 1: an engine is at least one instance"}
	}
	return nil
}

// checkEntitled refuses an entitlement of no instances. One of none of a custom countable gives it
// back. An allocation that has no instances may stay so: rows, and the records of agents, from
// before this rule have such engines. The error is a *FieldError.
func checkEntitled(has, next resource.Vector) error {
	if n, set := next.Get(resource.Instances); set && n < 1 && has.Instances() != 0 {
		return &FieldError{"entitled." + resource.Instances, fmt.Sprint(n), fmt.Sprintf("1 or more, or nothing, which leaves it at %d: an engine is at least one instance", has.Instances())}
	}
	return nil
}

package ledger

import (
	"fmt"

	"github.com/bursar/bursar/resource"
)

// # Countables
//
// Instances and custom dimensions, such as a GPU, are countables: no agent measures how many of
// them an engine uses. While its process lives, the word of its caller cannot lower them, because
// they would be granted to somebody else. An operator may lower them. Memory and cpu are measured,
// and the policies of the host apply to them. They may be lowered, but not to zero: zero limits
// nothing, so no policy would apply.

// isCountable reports whether agents do not measure a dimension.
func isCountable(dimension string) bool {
	return dimension != resource.Memory && dimension != resource.CPU
}

// withCountables returns v with the countables of another vector, and with its quantity of every
// dimension that is zero in v.
func withCountables(v, of resource.Vector) resource.Vector {
	for dimension, quantity := range of.All() {
		if isCountable(dimension) || get(v, dimension) == 0 {
			v = v.With(dimension, quantity)
		}
	}
	return v
}

// keepsCountables refuses an entitlement that, while the entry's process lives, has fewer
// countables than the entry, or zero of another dimension that the entry has. The error is a
// *FieldError.
func (e *entry) keepsCountables(next resource.Vector) error {
	for dimension, had := range e.Entitled.All() {
		quantity := get(next, dimension)
		if !isCountable(dimension) && quantity == 0 && had > 0 {
			return &FieldError{
				"entitled." + dimension, resource.FormatQuantity(dimension, quantity),
				fmt.Sprintf("more than 0 while process %d of the engine lives: no policy of its host would apply to it", e.Process.PID),
			}
		}
		if isCountable(dimension) && quantity < had {
			return &FieldError{
				"entitled." + dimension, resource.FormatQuantity(dimension, quantity),
				fmt.Sprintf("at least %s while process %d of the engine lives: nothing shows that it uses fewer. An operator may lower it", resource.FormatQuantity(dimension, had), e.Process.PID),
			}
		}
	}
	return nil
}

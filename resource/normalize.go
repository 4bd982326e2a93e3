package resource

import (
	"errors"
	"strconv"
)

// Normalization rounds requests as YARN does. Each vector lists the dimensions that it applies to;
// others do not change.
type Normalization struct {
	// Minimum is what a request is raised to; it applies also if the request does not set the
	// dimension.
	Minimum Vector
	// Increment is the step: what is given is a multiple of it, even if the minimum is not. Zero is
	// no step.
	Increment Vector
	// Maximum is what a request must not exceed. Rounding up stops at it.
	Maximum Vector
}

// Apply returns the request raised to the minimum, then up to the next multiple of the increment,
// as the resource calculators of YARN do (normalize: roundUp(max(request, minimum), increment), at
// most the maximum). A request above the maximum, or one that Validate refuses, is refused with a
// *FieldError.
func (n Normalization) Apply(request Vector) (Vector, error) {
	if err := request.Validate(); err != nil {
		return Vector{}, err
	}
	out := request
	for dimension, asked := range request.All() {
		if most, limited := n.Maximum.Get(dimension); limited && asked > most {
			return Vector{}, &FieldError{dimension, FormatQuantity(dimension, asked), "at most " + FormatQuantity(dimension, most)}
		}
		out = out.With(dimension, n.round(dimension, asked))
	}
	for dimension := range n.Minimum.All() {
		if !request.Has(dimension) {
			out = out.With(dimension, n.round(dimension, 0))
		}
	}
	if err := out.Validate(); err != nil {
		return Vector{}, err
	}
	return out, nil
}

// round returns one quantity raised and rounded, at most the maximum.
func (n Normalization) round(dimension string, asked int64) int64 {
	least, _ := n.Minimum.Get(dimension)
	step, _ := n.Increment.Get(dimension)
	rounded := max(asked, least)
	if step > 0 {
		if rest := rounded % step; rest != 0 {
			rounded += step - rest
		}
	}
	if most, limited := n.Maximum.Get(dimension); limited {
		rounded = min(rounded, most)
	}
	return rounded
}

// Validate reports the first quantity that is out of range, and the first minimum above its
// maximum, as a *FieldError.
func (n Normalization) Validate() error {
	for _, part := range []struct {
		name string
		Vector
	}{{"minimum", n.Minimum}, {"increment", n.Increment}, {"maximum", n.Maximum}} {
		var wrong *FieldError
		if err := part.Validate(); errors.As(err, &wrong) {
			return wrong.within(part.name)
		}
	}
	for dimension, least := range n.Minimum.All() {
		if most, limited := n.Maximum.Get(dimension); limited && least > most {
			return &FieldError{"minimum." + dimension, FormatQuantity(dimension, least), "at most the maximum, " + FormatQuantity(dimension, most)}
		}
	}
	return nil
}

// FormatQuantity writes a quantity in its dimension's usual form, which ParseQuantity reads:
// memory, and that of masters, as FormatMemory does, cpu as FormatCPU does, and everything else as
// a plain number.
func FormatQuantity(dimension string, quantity int64) string {
	switch dimension {
	case Memory, AMMemory:
		return FormatMemory(quantity)
	case CPU, AMCPU:
		return FormatCPU(quantity)
	}
	return strconv.FormatInt(quantity, 10)
}

package resource

import (
	"errors"
	"strconv"
)

// Normalization rounds requests like YARN. Each vector lists the dimensions that it applies to;
// others do not change.
type Normalization struct {
	// Minimum raises a request to at least this much; it applies also if the request does not set
	// the dimension.
	Minimum Vector
	// Increment is the step: the result is a multiple of it, even if the minimum is not. Zero: no
	// step.
	Increment Vector
	// Maximum is the largest request. Rounding up stops at it.
	Maximum Vector
}

// Apply returns the request raised to the minimum, then up to the next multiple of the increment,
// like YARN's resource calculators (normalize: roundUp(max(request, minimum), increment), at most
// the maximum). The error is a *FieldError if the request is above the maximum, or invalid by
// Validate.
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

// FormatQuantity formats a quantity in the usual form of its dimension, which ParseQuantity reads:
// memory, also of masters, like FormatMemory, cpu like FormatCPU, and other dimensions as a plain
// number.
func FormatQuantity(dimension string, quantity int64) string {
	switch dimension {
	case Memory, AMMemory:
		return FormatMemory(quantity)
	case CPU, AMCPU:
		return FormatCPU(quantity)
	}
	return strconv.FormatInt(quantity, 10)
}

package resource

import (
	"errors"
	"fmt"
)

var (
	// ErrOverflow is returned if a result would not fit into 63 bits.
	ErrOverflow = errors.New("resource: overflow")
	// ErrUnderflow is returned if a result would be negative.
	ErrUnderflow = errors.New("resource: less than zero")
	// ErrDivideByZero is returned by the divisions.
	ErrDivideByZero = errors.New("resource: division by zero")
)

// FieldError reports which part of an input is wrong, its value, and a description of a valid
// value.
type FieldError struct {
	// Field is a dimension ("memory"), or a path such as "external[yarn:default:root.a].cpu".
	Field string
	Value string
	// Want describes a valid value, as the text after "want ".
	Want string
}

// Error returns "field: value: want ...".
func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %q: want %s", e.Field, e.Value, e.Want)
}

// within returns the error with its field below a path.
func (e *FieldError) within(path string) *FieldError {
	return &FieldError{Field: path + "." + e.Field, Value: e.Value, Want: e.Want}
}

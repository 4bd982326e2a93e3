package machine

import "fmt"

// FieldError names a field of a section, and the right form of its value.
type FieldError struct {
	Field, Value, Want string
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s: %q: want %s", e.Field, e.Value, e.Want) }

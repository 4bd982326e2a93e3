package resource

import (
	"encoding"
	"errors"
	"fmt"
)

// Size is a number of bytes in a configuration. Its text has the form of ParseMemory, such as 64MiB
// or 67108864.
type Size int64

var (
	_ encoding.TextUnmarshaler = (*Size)(nil)
	_ encoding.TextMarshaler   = Size(0)
	_ fmt.Stringer             = Size(0)
)

// UnmarshalText parses a size. The error describes a valid value.
func (s *Size) UnmarshalText(text []byte) error {
	bytes, err := ParseMemory(string(text))
	if wrong, ok := errors.AsType[*FieldError](err); ok {
		return errors.New(wrong.Want)
	}
	*s = Size(bytes)
	return err
}

// MarshalText formats a size like FormatMemory.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String formats a size like FormatMemory.
func (s Size) String() string { return FormatMemory(int64(s)) }

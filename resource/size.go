package resource

import (
	"encoding"
	"errors"
	"fmt"
)

// Size is a number of bytes in a configuration. As text it has the form that ParseMemory reads,
// such as 64MiB or 67108864.
type Size int64

var (
	_ encoding.TextUnmarshaler = (*Size)(nil)
	_ encoding.TextMarshaler   = Size(0)
	_ fmt.Stringer             = Size(0)
)

// UnmarshalText reads a size. The error says what would be right.
func (s *Size) UnmarshalText(text []byte) error {
	bytes, err := ParseMemory(string(text))
	if wrong, ok := errors.AsType[*FieldError](err); ok {
		return errors.New(wrong.Want)
	}
	*s = Size(bytes)
	return err
}

// MarshalText writes a size as FormatMemory does.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String writes a size as FormatMemory does.
func (s Size) String() string { return FormatMemory(int64(s)) }

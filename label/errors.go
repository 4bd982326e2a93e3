package label

import "fmt"

// FieldError names the wrong part of an input, its value, and a correct value.
type FieldError struct {
	// Field is a path such as "labels[user]", or "derived[0].patterns[1].match" in a configuration.
	Field string
	Value string
	// Want describes a correct value, to be read after "want ".
	Want string
}

// Error returns "field: value: want ...".
func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %q: want %s", e.Field, e.Value, e.Want)
}

// ClaimError refuses a request that claims a derived label with another value.
type ClaimError struct {
	Key     string
	Claimed string
	// Derived is empty if the rules give the label no value.
	Derived string
}

// Error names the claimed label and its derived value.
func (e *ClaimError) Error() string {
	if e.Derived == "" {
		return fmt.Sprintf("labels[%s]: %q was claimed, but this label is derived, and the rules give it no value here", e.Key, e.Claimed)
	}
	return fmt.Sprintf("labels[%s]: %q was claimed, but this label is derived, and here it is %q", e.Key, e.Claimed, e.Derived)
}

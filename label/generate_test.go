package label

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// fatal is the common interface of tests and properties.
type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// must returns the result of a call that has no reason to fail.
func must[A, T any](t fatal, call func(A) (T, error), argument A) T {
	t.Helper()
	value, err := call(argument)
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	return value
}

// sets draws few keys and few values, so that collisions occur.
func sets(values ...string) *rapid.Generator[Set] {
	return rapid.Custom(func(t *rapid.T) Set {
		var s Set
		for _, key := range []string{"creator", "engineType", "user"} {
			if rapid.Bool().Draw(t, key+" set") {
				s = s.With(key, rapid.SampledFrom(values).Draw(t, key))
			}
		}
		return s
	})
}

// selectors draws selectors over the same keys and values.
func selectors(values ...string) *rapid.Generator[Selector] {
	return rapid.Map(sets(append(values, Any)...), newSelector)
}

// awkward draws values with all characters that are special in a text form.
func awkward() *rapid.Generator[string] {
	return rapid.StringOfN(rapid.RuneFrom([]rune("a\\,= *\"'ö{}@:\u3164\u200b\u00a0")), 0, 12, maxValue)
}

// checkField fails unless err is a complete *FieldError about that field, or nil if the field is
// "".
func checkField(t *testing.T, err error, field string) {
	t.Helper()
	if field == "" {
		if err != nil {
			t.Errorf("unexpected error: %v", err)
		}
		return
	}
	var wrong *FieldError
	if !errors.As(err, &wrong) {
		t.Fatalf("error %v is no FieldError; want one about %q", err, field)
	}
	if wrong.Field != field || wrong.Want == "" {
		t.Errorf("error is about %q: %v; want one about %q that says what would be right", wrong.Field, err, field)
	}
}

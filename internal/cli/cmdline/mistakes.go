package cmdline

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/duration"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// DurationFlag is a duration as people type it: 30s, 1h30m, 1d.
type DurationFlag struct{ Value *time.Duration }

// String is empty for zero, so that no help text calls it a default.
func (f DurationFlag) String() string {
	if f.Value == nil || *f.Value == 0 {
		return ""
	}
	return Hours(*f.Value)
}

// Type names the form in help texts.
func (f DurationFlag) Type() string { return "duration" }

// Set reads a duration.
func (f DurationFlag) Set(text string) error {
	d, err := duration.Parse(text)
	if err == nil {
		*f.Value = d
	}
	return err //nolint:wrapcheck // says all
}

// TTLFlag is a DurationFlag that may be left out, but not zero: that reads as no time at all, and a
// server takes it for its default.
type TTLFlag struct{ DurationFlag }

// Set reads a duration above zero.
func (f TTLFlag) Set(text string) error {
	if err := f.DurationFlag.Set(text); err != nil {
		return err
	}
	if *f.Value == 0 {
		return errors.New("want at least 1s, or no --ttl for the default")
	}
	return nil
}

// HostFlag is the id of a host. An empty one is refused: it comes from a variable that is not set,
// and would mean any host.
type HostFlag struct{ ID *string }

func (f HostFlag) String() string {
	if f.ID == nil {
		return ""
	}
	return *f.ID
}

// Type names the form in help texts.
func (f HostFlag) Type() string { return "string" }

// Set reads the id of a host.
func (f HostFlag) Set(text string) error {
	if text == "" {
		return errors.New("want a host id")
	}
	*f.ID = text
	return nil
}

// NameFlag is the name of an allocation. An empty one is refused: it comes from a variable that is
// not set.
type NameFlag struct{ Name *string }

func (f NameFlag) String() string {
	if f.Name == nil {
		return ""
	}
	return *f.Name
}

// Type names the form in help texts.
func (f NameFlag) Type() string { return "string" }

// maxName is the longest name of the contract, in bytes.
const maxName = 128

// Set reads a name.
func (f NameFlag) Set(text string) error {
	switch {
	case text == "":
		return errors.New("want a name, or no --name")
	case len(text) > maxName:
		return fmt.Errorf("has %d bytes: want at most %d", len(text), maxName)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return errors.New("want UTF-8 without control characters")
	}
	*f.Name = text
	return nil
}

// AddDuration adds a flag. It keeps the value that is there as the default.
func AddDuration(flags *pflag.FlagSet, into *time.Duration, name, shorthand, usage string) {
	flags.VarP(DurationFlag{into}, name, shorthand, usage)
}

// NewDuration adds a flag with a default.
func NewDuration(flags *pflag.FlagSet, standard time.Duration, name, usage string) *time.Duration {
	value := standard
	AddDuration(flags, &value, name, "", usage)
	return &value
}

// FlagMistake says which flag has a wrong value, the value, and the right form. Other mistakes are
// told in the library's words.
func FlagMistake(_ *cobra.Command, err error) error {
	wrong, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	flag, cause := wrong.GetFlag(), wrong.Unwrap()
	if d, ok := errors.AsType[*duration.Error](cause); ok {
		return fmt.Errorf("--%s %w", flag.Name, d)
	}
	if field, ok := errors.AsType[*resource.FieldError](cause); ok && field.Field == flag.Name {
		return fmt.Errorf("--%s %q: want %s", flag.Name, field.Value, field.Want)
	}
	if field, ok := errors.AsType[*label.FieldError](cause); ok {
		if key, isLabel := strings.CutPrefix(field.Field, "labels["); isLabel {
			if key = strings.TrimSuffix(key, "]"); key == field.Value { // the key is wrong
				return fmt.Errorf("--%s %q: want %s", flag.Name, key, field.Want)
			}
			return fmt.Errorf("--%s %s %q: want %s", flag.Name, render.Shown(key), field.Value, field.Want)
		}
	}
	if rest, quotesAll := strings.CutPrefix(cause.Error(), strconv.Quote(wrong.GetValue())+": "); quotesAll {
		return fmt.Errorf("--%s %s: %s", flag.Name, shownValue(wrong.GetValue()), rest)
	}
	want := wantedNumber(flag.Value.Type())
	if flag.Name == "pid" {
		want = WantedPID
	}
	if want != "" {
		return fmt.Errorf("--%s %q: want %s", flag.Name, wrong.GetValue(), want)
	}
	switch flag.Value.(type) {
	case *TimeFlag, HostFlag, NameFlag:
		return fmt.Errorf("--%s %q: %w", flag.Name, wrong.GetValue(), cause)
	}
	return fmt.Errorf("--%s %s: %w", flag.Name, shownValue(wrong.GetValue()), cause)
}

// shownValue is a value as it was typed; an empty one can be seen, too.
func shownValue(value string) string {
	if value == "" {
		return `""`
	}
	return render.Shown(value)
}

// wantedNumber is the form that a flag of a type wants, for the types that the library reads.
func wantedNumber(flagType string) string {
	between := func(least, most int64) string { return fmt.Sprintf("a whole number from %d to %d", least, most) }
	switch flagType {
	case "int32":
		return between(math.MinInt32, math.MaxInt32)
	case "int", "int64":
		return between(math.MinInt64, math.MaxInt64)
	case "uint64":
		return fmt.Sprintf("a whole number from 0 to %d", uint64(math.MaxUint64))
	case "bool":
		return "true or false"
	}
	return ""
}

// WantedPID is what --pid wants.
const WantedPID = "the number of a process, 1 or more"

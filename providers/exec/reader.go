package exec

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/resource"
)

// reader reads the values of an answer that is well-formed JSON. Its methods take the path of the
// field, for errors.
type reader struct{ json *jsontext.Decoder }

// readerOf accepts duplicate keys; object rejects them with their names.
func readerOf(data []byte) reader {
	return reader{jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
}

// each enters the next object or array, calls piece for each element, and leaves it.
func (r reader) each(end jsontext.Kind, piece func() error) error {
	if _, err := r.json.ReadToken(); err != nil {
		return r.syntax(err)
	}
	for r.json.PeekKind() != end {
		if err := piece(); err != nil {
			return r.syntax(err)
		}
	}
	_, err := r.json.ReadToken()
	return r.syntax(err)
}

// string reads a string or a key.
func (r reader) string() (string, error) {
	token, err := r.json.ReadToken()
	if err != nil {
		return "", r.syntax(err)
	}
	return token.String(), nil
}

// object reads an object. It calls field for each key, with the path of that field; field reads the
// value and returns true, or returns false for an unknown key. keys lists the known keys.
func (r reader) object(within, keys string, field func(key, at string) (known bool, err error)) error {
	if r.json.PeekKind() != jsontext.KindBeginObject {
		return r.mistyped(within, "an object")
	}
	seen := make(map[string]bool)
	return r.each(jsontext.KindEndObject, func() error {
		key, err := r.string()
		if err != nil {
			return err
		}
		at := within
		if at != "" {
			at += "."
		}
		at += printable(key)
		if seen[key] {
			return refuse(at, quoted(key), "each field once")
		}
		seen[key] = true
		known, err := field(key, at)
		if !known && err == nil {
			err = refuse(at, quoted(key), "one of the fields "+keys)
		}
		return err
	})
}

// readList reads a list of up to most items.
func readList[T any](r reader, at string, most int, item func(at string) (T, error)) ([]T, error) {
	if r.json.PeekKind() != jsontext.KindBeginArray {
		return nil, r.mistyped(at, "a list")
	}
	var list []T
	return list, r.each(jsontext.KindEndArray, func() error {
		if len(list) == most {
			return refuse(at, fmt.Sprintf("more than %d of them", most), fmt.Sprintf("at most %d", most))
		}
		value, err := item(fmt.Sprintf("%s[%d]", at, len(list)))
		list = append(list, value)
		return err
	})
}

// text reads a text of up to most characters; 0 means any length. Texts are shown to people, so
// it rejects unprintable characters.
func (r reader) text(at string, most int) (string, error) {
	if r.json.PeekKind() != jsontext.KindString {
		return "", r.mistyped(at, "a text")
	}
	text, err := r.string()
	switch {
	case err != nil:
		return "", err
	case text == "":
		return "", refuse(at, `""`, "a text, or no such field")
	case strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }):
		return "", refuse(at, quoted(text), "no characters that cannot be seen")
	case most > 0 && utf8.RuneCountInString(text) > most:
		return "", refuse(at, quoted(text), fmt.Sprintf("at most %d characters", most))
	}
	return text, nil
}

// name reads a name. It accepts any content, because other people than the author of the command
// may choose names. Bytes that are not UTF-8 become U+FFFD.
func (r reader) name(at string) (string, error) {
	if r.json.PeekKind() != jsontext.KindString {
		return "", r.mistyped(at, "a text")
	}
	return r.string()
}

func (r reader) boolean(at string) (bool, error) {
	switch kind := r.json.PeekKind(); kind {
	case jsontext.KindTrue, jsontext.KindFalse:
		return kind == jsontext.KindTrue, r.syntax(r.json.SkipValue())
	default:
		return false, r.mistyped(at, "true or false")
	}
}

// scalar reads a number or a text. It returns the text as written, and a form for errors.
func (r reader) scalar(at, want string) (text, shown string, err error) {
	switch r.json.PeekKind() {
	case jsontext.KindNumber:
		number, err := r.json.ReadValue()
		return string(number), printable(string(number)), r.syntax(err)
	case jsontext.KindString:
		text, err := r.string()
		return text, quoted(text), err
	default:
		return "", "", r.mistyped(at, want)
	}
}

// count reads a whole number.
func (r reader) count(at, unlimited string) (int64, error) {
	want := fmt.Sprintf("a whole number from 0 to %d%s", int64(resource.MaxQuantity), unlimited)
	text, shown, err := r.scalar(at, want)
	if err != nil {
		return 0, err
	}
	if n, ok := wholeNumber(text); ok {
		return n, nil
	}
	return 0, refuse(at, shown, want)
}

func wholeNumber(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0 && n <= resource.MaxQuantity && text[0] != '+' && text[0] != '-'
}

// memory reads a size with its unit.
func (r reader) memory(at, unlimited string) (int64, error) {
	want := "a size with its unit, such as 64GiB (powers of 1024) or 64G (powers of 1000), up to 8PiB; memoryBytes takes plain bytes" + unlimited
	text, shown, err := r.scalar(at, want)
	if err != nil {
		return 0, err
	}
	if text == "0" { // zero needs no unit
		return 0, nil
	}
	n, err := resource.ParseMemory(text)
	if err != nil || strings.TrimLeft(text, "0123456789.") == "" {
		return 0, refuse(at, shown, want)
	}
	return n, nil
}

// cores reads cores, or thousandths of a core.
func (r reader) cores(at, unlimited string) (int64, error) {
	want := `cores such as 2, 1.5 or "500m"` + unlimited
	text, shown, err := r.scalar(at, want)
	if err != nil {
		return 0, err
	}
	n, err := resource.ParseCPU(text)
	if err != nil {
		return 0, refuse(at, shown, want)
	}
	return n, nil
}

// vector reads quantities. Errors about a number end with unlimited.
func (r reader) vector(at, unlimited string) (resource.Vector, error) {
	var v resource.Vector
	// once rejects a dimension that was already set in another unit.
	once := func(at, dimension string) error {
		if v.Has(dimension) {
			return refuse(at, "a second figure", dimension+" in one unit")
		}
		return nil
	}
	err := r.object(at, "memory, memoryBytes, cpu, cpuMillis, instances or custom", func(key, at string) (known bool, err error) {
		var n int64
		var dimension string
		switch key {
		case "memory":
			dimension = resource.Memory
			n, err = r.memory(at, unlimited)
		case "memoryBytes":
			dimension = resource.Memory
			n, err = r.count(at, unlimited)
		case "cpu":
			dimension = resource.CPU
			n, err = r.cores(at, unlimited)
		case "cpuMillis":
			dimension = resource.CPU
			n, err = r.count(at, unlimited)
		case "instances":
			dimension = resource.Instances
			n, err = r.count(at, unlimited)
		case "custom":
			custom, err := r.custom(at)
			v = v.WithCustom(custom)
			return true, err
		default:
			return false, nil
		}
		if err == nil {
			err = once(at, dimension)
		}
		v = v.With(dimension, n)
		return true, err
	})
	if err != nil {
		return v, err
	}
	if wrong, is := errors.AsType[*resource.FieldError](v.Validate()); is {
		return v, refuse(at+"."+wrong.Field, quoted(wrong.Value), wrong.Want)
	}
	return v, nil
}

// custom reads custom countables by name.
func (r reader) custom(at string) (map[string]int64, error) {
	quantities := make(map[string]int64)
	return quantities, r.object(at, "", func(name, at string) (known bool, err error) {
		if len(quantities) == resource.MaxCustom {
			return true, refuse(at, quoted(name), fmt.Sprintf("at most %d of them in one queue", resource.MaxCustom))
		}
		if resource.OfApplications(name) {
			return true, refuse(at, quoted(name), "another name: Bursar counts masters and applications under am-memory, am-cpu and applications")
		}
		quantities[name], err = r.count(at, "")
		return true, err
	})
}

// mistyped rejects a value of another JSON type.
func (r reader) mistyped(at, want string) error {
	raw, err := r.json.ReadValue()
	if err != nil {
		return r.syntax(err)
	}
	return refuse(at, printable(string(raw[:min(len(raw), maxShown)])), want)
}

// syntax turns an error of the decoder into an *AnswerError. wellFormed has passed, so such an
// error is unexpected.
func (r reader) syntax(err error) error {
	if err == nil {
		return nil
	}
	if wrong, is := errors.AsType[*AnswerError](err); is {
		return wrong
	}
	return refuse("", quoted(err.Error()), "one JSON object")
}

// printable formats a part of an answer for an error: truncated, without terminal control
// characters.
func printable(text string) string {
	shown := []rune(strings.ToValidUTF8(text, "?"))
	cut := ""
	if len(shown) > maxShown {
		shown, cut = shown[:maxShown], " …"
	}
	return spelling.Printable(string(shown), '?') + cut
}

package convert

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/bursar/bursar/internal/duration"
	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/resource"
)

// mostFault is the length of a wrong value in an error, in bytes.
const mostFault = 80

// jsonFault finds the first field of a request, by name, whose value has the wrong type, and
// describes a valid value: the library's error names a protobuf type and a position. Nil: there is
// none. It parses the text again, so it is only for rejected texts.
func jsonFault(path string, text json.RawMessage, of protoreflect.MessageDescriptor) *resource.FieldError {
	switch of.FullName() {
	case "google.protobuf.Duration":
		return wrongUnless(durationForm(text), path, text, `seconds as a text with "s" behind, such as `+seconds(text))
	case "google.protobuf.Timestamp":
		return wrongUnless(timestampForm(text), path, text, `a time of RFC 3339 with its zone, such as `+moment(text))
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return wrongUnless(isNull(text), path, text, "an object, {} at least")
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		f := of.Fields().ByJSONName(name)
		if f == nil {
			f = of.Fields().ByTextName(name)
		}
		if f == nil {
			continue // the library reports it
		}
		if fault := fieldFault(below(path, string(f.Name())), fields[name], f); fault != nil {
			return fault
		}
	}
	return nil
}

func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// fieldFault is jsonFault for one field, which may be a list or a map.
func fieldFault(path string, text json.RawMessage, f protoreflect.FieldDescriptor) *resource.FieldError {
	switch {
	case isNull(text): // like an absent field
		return nil
	case f.IsMap():
		var values map[string]json.RawMessage
		if json.Unmarshal(text, &values) != nil {
			return wrongUnless(false, path, text, "an object of names and values")
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if fault := valueFault(path+"["+spelling.Line(key, mostFault)+"]", values[key], f.MapValue()); fault != nil {
				return fault
			}
		}
		return nil
	case f.IsList():
		var values []json.RawMessage
		if json.Unmarshal(text, &values) != nil {
			return wrongUnless(false, path, text, "a list, such as [] for none")
		}
		for i, value := range values {
			if fault := valueFault(fmt.Sprintf("%s[%d]", path, i), value, f); fault != nil {
				return fault
			}
		}
		return nil
	}
	return valueFault(path, text, f)
}

// valueFault is jsonFault for one value.
func valueFault(path string, text json.RawMessage, f protoreflect.FieldDescriptor) *resource.FieldError {
	var word string
	isText := json.Unmarshal(text, &word) == nil && !isNull(text)
	switch kind := f.Kind(); kind {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return jsonFault(path, text, f.Message())
	case protoreflect.BoolKind:
		return wrongUnless(string(text) == "true" || string(text) == "false", path, text, "true or false, without quotes")
	case protoreflect.StringKind:
		return wrongUnless(isText, path, text, "a text in double quotes")
	case protoreflect.BytesKind:
		_, err := base64.StdEncoding.DecodeString(word)
		return wrongUnless(isText && err == nil, path, text, "bytes as a text in base64")
	case protoreflect.EnumKind:
		return enumFault(path, text, word, isText, f.Enum())
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		_, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
		return wrongUnless(err == nil, path, text, "a number")
	default:
		least, most := bounds(kind)
		want := fmt.Sprintf("a whole number from %s to %s", least, most)
		if meant := meantQuantity(string(f.Name()), word); meant != "" {
			want += ", such as " + meant
		}
		return wrongUnless(isWhole(strings.Trim(string(text), `"`), least, most), path, text, want)
	}
}

func enumFault(path string, text json.RawMessage, word string, isText bool, of protoreflect.EnumDescriptor) *resource.FieldError {
	if _, err := strconv.ParseInt(string(text), 10, 32); err == nil {
		return nil // a number may replace a name
	}
	var names []string
	for i := range of.Values().Len() {
		names = append(names, string(of.Values().Get(i).Name()))
	}
	return wrongUnless(isText && slices.Contains(names, word), path, text, "one of "+strings.Join(names, ", "))
}

func wrongUnless(right bool, path string, text json.RawMessage, want string) *resource.FieldError {
	if right {
		return nil
	}
	if path == "" {
		path = "request"
	}
	return &resource.FieldError{Field: path, Value: shownJSON(text), Want: want}
}

// shownJSON formats a value for an error: a text without its quotes.
func shownJSON(text json.RawMessage) string {
	var word string
	if json.Unmarshal(text, &word) == nil && !isNull(text) {
		return spelling.Line(word, mostFault)
	}
	return spelling.Line(string(text), mostFault)
}

func isNull(text json.RawMessage) bool { return string(bytes.TrimSpace(text)) == "null" }

var secondsForm = regexp.MustCompile(`^-?[0-9]{1,12}(\.[0-9]{1,9})?s$`)

func durationForm(text json.RawMessage) bool {
	var word string
	return isNull(text) || json.Unmarshal(text, &word) == nil && secondsForm.MatchString(word)
}

// seconds returns the duration that was probably meant, in the right form and in quotes.
func seconds(text json.RawMessage) string {
	var word string
	if json.Unmarshal(text, &word) != nil { // a number of seconds
		word = strings.TrimSpace(string(text)) + "s"
	}
	d, err := duration.Parse(strings.TrimSpace(word))
	if err != nil {
		d = 10 * time.Minute
	}
	return `"` + strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + `s"`
}

func timestampForm(text json.RawMessage) bool {
	var word string
	if isNull(text) {
		return true
	}
	if json.Unmarshal(text, &word) != nil {
		return false
	}
	_, err := time.Parse(time.RFC3339Nano, word)
	return err == nil
}

// moment returns the time that was probably meant, in the right form and in quotes.
func moment(text json.RawMessage) string {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	var word string
	if json.Unmarshal(text, &word) == nil {
		for _, form := range []string{time.DateTime, "2006-01-02T15:04:05", time.DateOnly} {
			if t, err := time.Parse(form, word); err == nil {
				at = t
			}
		}
	} else if n, err := strconv.ParseInt(string(text), 10, 40); err == nil { // Unix seconds
		at = time.Unix(n, 0).UTC()
	}
	return `"` + at.Format(time.RFC3339) + `"`
}

// bounds returns the bounds of a kind of whole numbers.
func bounds(kind protoreflect.Kind) (least, most *big.Int) {
	switch kind { //nolint:exhaustive // the others are no whole numbers
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return big.NewInt(math.MinInt32), big.NewInt(math.MaxInt32)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return big.NewInt(0), big.NewInt(math.MaxUint32)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return big.NewInt(0), new(big.Int).SetUint64(math.MaxUint64)
	}
	return big.NewInt(math.MinInt64), big.NewInt(math.MaxInt64)
}

func isWhole(text string, least, most *big.Int) bool {
	const longest = 40
	if len(text) > longest {
		return false
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok { // such as 1e3 and 5.0
		f, err := strconv.ParseFloat(text, 64)
		return err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53
	}
	return !strings.HasPrefix(text, "+") && n.Cmp(least) >= 0 && n.Cmp(most) <= 0
}

// meantQuantity returns the plain number for a quantity with a unit, as on the command line: for
// 4GiB in bytes, for 500m in thousandths of a core; empty: unknown.
func meantQuantity(field, word string) string {
	var n int64
	var err error
	switch {
	case word == "":
		return ""
	case strings.HasSuffix(field, "bytes"):
		n, err = resource.ParseMemory(word)
	case strings.HasSuffix(field, "millis"):
		n, err = resource.ParseCPU(word)
	default:
		return ""
	}
	if err != nil {
		return ""
	}
	return `"` + strconv.FormatInt(n, 10) + `"`
}

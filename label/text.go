package label

import (
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/spelling"
)

// Parse reads "key=value,key=value", the form of the command line. A value is taken literally, also
// a backslash; blanks at its ends are dropped. A value in double quotes may contain commas and
// blanks at its ends: within the quotes \" and \\ stand for a double quote and a backslash, and
// \uXXXX for any character. The empty text is the empty set. The error is a *FieldError.
func Parse(text string) (Set, error) {
	if strings.Trim(text, " ") == "" {
		return nil, nil
	}
	var set Set
	for more := true; more; {
		var l Label
		var err error
		if l, text, more, err = cutLabel(text); err != nil {
			return nil, err
		}
		if err := l.check(); err != nil {
			return nil, err
		}
		set = append(set, l)
	}
	slices.SortFunc(set, byKey)
	for i := 1; i < len(set); i++ {
		if set[i].Key == set[i-1].Key {
			return nil, &FieldError{field(set[i].Key), set[i].Value, "each key once"}
		}
	}
	return set, nil
}

// stops are the characters that end an unquoted value.
const stops = ","

// cutLabel reads the first label of a text, and reports whether more follow.
func cutLabel(text string) (l Label, rest string, more bool, err error) {
	end := strings.IndexAny(text, "=,")
	if end < 0 || text[end] == ',' {
		pair, _, _ := strings.Cut(text, ",")
		return l, "", false, &FieldError{"labels", pair, "key=value, with commas between several"}
	}
	l.Key = strings.Trim(text[:end], " ")
	text = strings.TrimLeft(text[end+1:], " ")
	value, rest, quoted, ok := spelling.CutName(text, stops)
	switch {
	case !ok:
		return l, "", false, &FieldError{field(l.Key), text, `a value in double quotes with a comma or nothing behind it, and in it \" for a double quote and \\ for a backslash`}
	case !quoted:
		value = strings.TrimRight(value, " ")
		if escapes(value, rest) {
			// Earlier versions read it as an escape, so it would become another name.
			return l, "", false, &FieldError{
				field(l.Key), value + rest[:min(1, len(rest))],
				"one backslash, which needs no other, or the value in double quotes, such as " + l.Key + `="a,b" and ` + l.Key + `="\\\\server"`,
			}
		}
	}
	l.Value = value
	return l, strings.TrimPrefix(rest, ","), rest != "", nil
}

// escapes reports whether an unquoted value has a backslash that looks like the beginning of an
// escape: before another one or before the comma behind the value.
func escapes(value, rest string) bool {
	return strings.Contains(value, `\\`) || strings.HasSuffix(value, `\`) && rest != ""
}

// Text returns "key=value,key=value" in order of the keys, in the form of Parse.
func (s Set) Text() string {
	var b strings.Builder
	for i, l := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(l.Key)
		b.WriteByte('=')
		// A filter reads an unquoted "*" as a pattern.
		if escapes(l.Value, ",") || l.Value != Any && strings.Contains(l.Value, Any) {
			b.WriteString(spelling.Quote(l.Value))
		} else {
			b.WriteString(spelling.Name(l.Value, stops))
		}
	}
	return b.String()
}

// String returns "key=value,key=value" in order of the keys, unique for each set. It is the key of
// rules in the store, so it must never change. Text is the form for people.
func (s Set) String() string {
	var b strings.Builder
	for i, l := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(l.Key)
		b.WriteByte('=')
		escape(&b, l.Value)
	}
	return b.String()
}

// escape writes the value with a backslash before ambiguous characters.
func escape(b *strings.Builder, value string) {
	for i := range len(value) {
		c := value[i]
		if c == ',' || c == '\\' || c == ' ' && (i == 0 || i == len(value)-1) {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
}

package label

import (
	"slices"
	"strings"
)

// Parse reads "key=value,key=value", the form of the command line. In a value a backslash escapes
// the next character, so that values may hold commas and spaces at their ends. Other spaces around
// keys and values are dropped. The empty text is the empty set. The error is a *FieldError.
func Parse(text string) (Set, error) {
	if strings.Trim(text, " ") == "" {
		return nil, nil
	}
	var set Set
	for _, pair := range split(text) {
		key, value, found := strings.Cut(pair, "=")
		key = strings.Trim(key, " ")
		if !found {
			return nil, &FieldError{"labels", pair, "key=value, with commas between several"}
		}
		value, ok := unescape(trimValue(value))
		if !ok {
			return nil, &FieldError{field(key), value, `a character after the "\"`}
		}
		l := Label{key, value}
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

// String returns "key=value,key=value" in order of the keys, as Parse reads it.
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

// split cuts the text at the commas that no backslash precedes.
func split(text string) []string {
	var pairs []string
	start := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case ',':
			pairs = append(pairs, text[start:i])
			start = i + 1
		}
	}
	return append(pairs, text[start:])
}

// trimValue drops the spaces at both ends that no backslash protects.
func trimValue(value string) string {
	value = strings.TrimLeft(value, " ")
	end := 0 // behind the last character to keep
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '\\':
			i++
			end = min(i+1, len(value))
		case ' ':
		default:
			end = i + 1
		}
	}
	return value[:end]
}

// unescape removes the backslashes; false if one is at the end.
func unescape(value string) (string, bool) {
	if !strings.Contains(value, `\`) {
		return value, true
	}
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] == '\\' {
			if i++; i == len(value) {
				return value, false
			}
		}
		b.WriteByte(value[i])
	}
	return b.String(), true
}

// escape writes the value so that unescape and trimValue return it.
func escape(b *strings.Builder, value string) {
	for i := range len(value) {
		c := value[i]
		if c == ',' || c == '\\' || c == ' ' && (i == 0 || i == len(value)-1) {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
}

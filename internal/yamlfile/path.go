package yamlfile

import (
	"encoding"
	"reflect"
	"strings"
	"time"
)

// normalize writes "labels[user].x" as "labels.user.x" and "a.'b.c'" as "a.b.c", and leaves
// "list[3]" unchanged. No two fields of a file differ only in the removed characters.
func normalize(path string) string {
	var b strings.Builder
	for i := range len(path) {
		switch c := path[i]; {
		case c == '\'' || c == '"':
		case c == '[' && !indexFollows(path[i+1:]):
			b.WriteByte('.')
		case c == ']' && !endsWithIndex(b.String()):
		default:
			b.WriteByte(c)
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}

func indexFollows(rest string) bool {
	digits, _, closed := strings.Cut(rest, "]")
	return closed && digits != "" && strings.Trim(digits, "0123456789") == ""
}

func endsWithIndex(path string) bool {
	open := strings.LastIndexByte(path, '[')
	return open >= 0 && strings.Trim(path[open+1:], "0123456789") == "" && open+1 < len(path)
}

// parent returns the path of the enclosing value; "" at the top.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// fields returns the yaml names of the struct at a path of a type; none if there is no struct.
func fields(t reflect.Type, path string) []string {
	t = typeAt(t, path)
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for field := range t.Fields() {
		if name := yamlName(field); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// durations is the type of durations, which are integers for the library.
var durations = reflect.TypeFor[time.Duration]() //nolint:gochecknoglobals // a constant

var unmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]() //nolint:gochecknoglobals // a constant

// typeAt returns the type at a path of a type; nil if there is none.
func typeAt(t reflect.Type, path string) reflect.Type {
	for step := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '.' || r == '[' }) {
		t = inner(t, step)
	}
	return direct(t)
}

// inner returns the type one step below, without pointers; nil if there is none.
func inner(t reflect.Type, step string) reflect.Type {
	t = direct(t)
	if t == nil {
		return nil
	}
	switch t.Kind() { //nolint:exhaustive // nothing else has parts
	case reflect.Slice, reflect.Array, reflect.Map:
		return direct(t.Elem())
	case reflect.Struct:
		for field := range t.Fields() {
			if yamlName(field) == step {
				return direct(field.Type)
			}
		}
	}
	return nil
}

func direct(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func yamlName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
	return name
}

// oneOf writes "a, b or c".
func oneOf(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

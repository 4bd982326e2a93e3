// Package reload says which fields of a running program's configuration a reload changes, and
// takes a new configuration over that far. The table is the tag `reload` of the fields: "live" is
// in force from the reload on, "start" only after a restart. A field that is a struct without the
// tag is a section, whose fields have it. It does not read files, and does not act on a change:
// its caller does, with what Take says has changed. It has no state.
package reload

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// The values of the tag.
const (
	live  = "live"
	start = "start"
)

// Changes are the fields that differ, by their path in the file, such as engines.policies, in the
// order of the struct.
type Changes struct {
	// Taken are in force now.
	Taken []string
	// Kept need a restart, and stay as they were until then.
	Kept []string
}

// Empty reports whether nothing differs.
func (c Changes) Empty() bool { return len(c.Taken)+len(c.Kept) == 0 }

// Has reports whether a field, or one of a section, was taken over.
func (c Changes) Has(path string) bool {
	return slices.ContainsFunc(c.Taken, func(taken string) bool { return taken == path || strings.HasPrefix(taken, path+".") })
}

// Take returns what runs after a reload: wanted, with the fields that need a restart as they are
// in running. Both are structs with the tag, and have their defaults filled in. An empty list or
// map is the same as none.
func Take[C any](running, wanted C) (C, Changes) {
	merged := wanted
	var changes Changes
	visitFields(reflect.TypeFor[C](), "", nil, func(path string, index []int, tag string) {
		was := reflect.ValueOf(running).FieldByIndex(index)
		into := reflect.ValueOf(&merged).Elem().FieldByIndex(index)
		switch {
		case same(was, into):
		case tag == live:
			changes.Taken = append(changes.Taken, path)
		default:
			changes.Kept = append(changes.Kept, path)
			into.Set(was)
		}
	})
	return merged, changes
}

// Untagged are the fields of a struct without a valid tag.
func Untagged(config any) []string {
	var list []string
	visitFields(reflect.TypeOf(config), "", nil, func(path string, _ []int, tag string) {
		if tag != live && tag != start {
			list = append(list, fmt.Sprintf("%s (%q)", path, tag))
		}
	})
	return list
}

// Live are the fields that a reload changes.
func Live(config any) []string {
	var list []string
	visitFields(reflect.TypeOf(config), "", nil, func(path string, _ []int, tag string) {
		if tag == live {
			list = append(list, path)
		}
	})
	return list
}

// walk visits the fields that can stand in the file: those with the tag, and those that have no
// fields of their own.
func visitFields(t reflect.Type, path string, at []int, visit func(path string, index []int, tag string)) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		index := append(slices.Clone(at), i)
		tag, tagged := field.Tag.Lookup("reload")
		if !tagged && field.Type.Kind() == reflect.Struct {
			visitFields(field.Type, path+name+".", index, visit)
			continue
		}
		visit(path+name, index, tag)
	}
}

func same(a, b reflect.Value) bool {
	switch a.Kind() { //nolint:exhaustive // the others cannot be empty and nil
	case reflect.Map, reflect.Slice:
		if a.Len() == 0 && b.Len() == 0 {
			return true
		}
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

package yamlfile

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/bursar/bursar/internal/duration"
)

// Scalar is one value as written, without its quotes: 0.50 stays "0.50", yes stays "yes".
type Scalar struct {
	text string
	set  bool
}

// UnmarshalYAML accepts anything except a list or a map.
func (s *Scalar) UnmarshalYAML(node ast.Node) error {
	if _, ok := node.(ast.ScalarNode); ok {
		*s = Scalar{textOf(node), true}
		return nil
	}
	return &Error{Field: pathOf(node), Reason: "is " + kind(node.Type()) + ": want a single value", token: node.GetToken()}
}

// OneOrMore is a value, or a list of values.
type OneOrMore []Scalar

// UnmarshalYAML accepts either.
func (o *OneOrMore) UnmarshalYAML(node ast.Node) error {
	list, isList := node.(*ast.SequenceNode)
	if !isList {
		*o = make(OneOrMore, 1)
		return (*o)[0].UnmarshalYAML(node)
	}
	*o = make(OneOrMore, len(list.Values))
	for i, item := range list.Values {
		if err := (*o)[i].UnmarshalYAML(item); err != nil {
			return err
		}
	}
	return nil
}

// ScalarOrList is a Scalar or a list of Scalars. For a list, its text is a JSON array of their
// texts.
type ScalarOrList struct{ Scalar }

// UnmarshalYAML accepts either.
func (s *ScalarOrList) UnmarshalYAML(node ast.Node) error {
	switch node.(type) {
	case *ast.SequenceNode:
	case ast.MapNode:
		return &Error{Field: pathOf(node), Reason: "is " + kind(node.Type()) + ": want a single value, or a list of them", token: node.GetToken()}
	default:
		return s.Scalar.UnmarshalYAML(node)
	}
	var list OneOrMore
	if err := list.UnmarshalYAML(node); err != nil {
		return err
	}
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = item.text
	}
	var text strings.Builder
	as := json.NewEncoder(&text)
	as.SetEscapeHTML(false) // the text is shown to people
	if err := as.Encode(texts); err != nil {
		return err //nolint:wrapcheck // texts can be encoded
	}
	s.Scalar = NewScalar(strings.TrimSpace(text.String()))
	return nil
}

// ScalarOrMaps is a Scalar or a list of maps of Scalars.
type ScalarOrMaps struct {
	Scalar

	// Maps are the items of the list; nil for a Scalar. An item that is no map is nil.
	Maps []map[string]Scalar
	// IsMap: the value is a single map instead. The caller decides which error to return.
	IsMap bool
}

// UnmarshalYAML accepts either. In a map, an absent value, ~ and null are unset.
func (s *ScalarOrMaps) UnmarshalYAML(node ast.Node) error {
	list, isList := node.(*ast.SequenceNode)
	if _, s.IsMap = node.(ast.MapNode); s.IsMap {
		return nil
	}
	if !isList {
		return s.Scalar.UnmarshalYAML(node)
	}
	s.Maps = make([]map[string]Scalar, len(list.Values))
	for i, item := range list.Values {
		pairs, isMap := item.(ast.MapNode)
		if !isMap {
			continue
		}
		s.Maps[i] = make(map[string]Scalar)
		for pair := pairs.MapRange(); pair.Next(); {
			var value Scalar
			if pair.Value().Type() != ast.NullType {
				if err := value.UnmarshalYAML(pair.Value()); err != nil {
					return err
				}
			}
			s.Maps[i][textOf(pair.Key())] = value
		}
	}
	return nil
}

// NewScalar returns a scalar with this text, for values that do not come from a file.
func NewScalar(text string) Scalar { return Scalar{text, true} }

// IsSet reports whether there is a value: a field that is left out, or has nothing after its colon,
// has none.
func (s Scalar) IsSet() bool { return s.set }

// String returns the text; empty if there is no value.
func (s Scalar) String() string { return s.text }

// Int parses a whole number from least to most. wrong is the reason of a failure, as the text after
// a field.
func (s Scalar) Int(least, most int64) (n int64, wrong string) {
	n, err := strconv.ParseInt(s.text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, Want(s.text, "a whole number from "+strconv.FormatInt(least, 10)+" to "+strconv.FormatInt(most, 10))
	}
	return n, ""
}

// Duration parses a duration such as 30s, from least to most.
func (s Scalar) Duration(least, most time.Duration) (d time.Duration, wrong string) {
	d, err := duration.Parse(s.text)
	if err != nil || d < least || d > most {
		return 0, Want(s.text, "a duration such as 500ms, 30s or 5m, from "+least.String()+" to "+most.String())
	}
	return d, ""
}

// Bool parses true or false.
func (s Scalar) Bool() (b bool, wrong string) {
	switch s.text {
	case "true":
		return true, ""
	case "false":
		return false, ""
	}
	return false, Want(s.text, "true or false")
}

// Want formats a reason: the wrong value, and a description of a valid one.
func Want(got, want string) string { return strconv.Quote(got) + ": want " + want }

// Package yamlfile reads YAML that people write, strictly. An error has the file, line, column,
// field, the wrong value and the expected form, and an excerpt with a caret. Unknown and duplicate
// fields are errors. The package does not guess the type of a value: a Scalar keeps the text, and
// the code that knows its meaning parses it.
//
// It knows nothing about the meaning of files. A Document does not change, and is safe for
// concurrent use.
package yamlfile

import (
	"bytes"
	"encoding"
	"errors"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/bursar/bursar/internal/duration"
)

// MaxBytes is the largest size of a file. A larger one is certainly a mistake, and is rejected
// without reading it.
const MaxBytes = 8 << 20

// Document is one parsed file.
type Document struct {
	name string
	data []byte
	body ast.Node // nil if the file is empty
}

// Parse parses a file's content: UTF-8 text, with or without a byte order mark. The error is an
// *Error.
func Parse(name string, data []byte) (*Document, error) {
	d := &Document{name: name, data: bytes.TrimPrefix(data, []byte(byteOrderMark))}
	if len(data) > MaxBytes {
		return nil, &Error{File: name, Reason: "larger than 8 MiB: want at most so much"}
	}
	if e := d.notText(); e != nil {
		return nil, e
	}
	if e := d.tooMuch(); e != nil {
		return nil, e
	}
	tokens := lexer.Tokenize(string(d.data))
	if e := d.noCharacter(tokens); e != nil {
		return nil, e
	}
	if e := d.tooDeep(tokens); e != nil {
		return nil, e
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, d.wrap(err, nil)
	}
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case d.body == nil:
			d.body = doc.Body
		default:
			return nil, d.errorAt(firstToken(doc.Body), "", "a second document: want one")
		}
	}
	if e := d.repeats(); e != nil {
		return nil, e
	}
	return d, nil
}

// Decode decodes the document into the struct that v points to, whose fields have yaml tags. An
// empty document leaves the struct unchanged. A text stays as written, even if YAML reads it as a
// number: 0660 stays "0660". An absent value, ~ and null leave a field unset. As a key, an item of
// a list of texts or a value in a map of texts, ~ and null are ordinary text. A field may be an
// encoding.TextUnmarshaler, whose error describes a valid value. A value that the library would
// round or guess is an error: 1.5 for an integer, or 5 for a duration. The error is an *Error.
func (d *Document) Decode(v any) error {
	if d.body == nil {
		return nil
	}
	body, wrong := d.typed(reflect.TypeOf(v))
	if wrong != nil {
		return wrong
	}
	if err := yaml.NodeToValue(body, v, yaml.Strict(), yaml.CustomUnmarshaler(readDuration)); err != nil {
		return d.wrap(err, reflect.TypeOf(v))
	}
	return nil
}

// readDuration reads a duration in the project's syntax, which includes days.
func readDuration(into *time.Duration, node []byte) error {
	var text string
	err := yaml.Unmarshal(node, &text)
	if err == nil {
		*into, err = duration.Parse(text)
	}
	return err
}

// At returns an error about a field, such as "quotas[3].limit.memory" or "labels[user]". If the
// document does not have that field, the error points to its innermost existing parent.
func (d *Document) At(field, reason string) *Error {
	for path := normalize(field); path != ""; path = parent(path) {
		if node := d.nodeAt(path); node != nil {
			return d.errorAt(firstToken(node), field, reason)
		}
	}
	if d.body != nil {
		return d.errorAt(firstToken(d.body), field, reason)
	}
	return &Error{File: d.name, Field: field, Reason: reason}
}

// wanted describes a valid value if the value does not fit the type of its field. It is empty if
// the value fits, or if the library's own error is good.
func wanted(field reflect.Type, node ast.Node) string {
	var err error
	text := textOf(node)
	switch kind := field.Kind(); {
	case reflect.PointerTo(field).Implements(unmarshaler):
		if reader, ok := reflect.TypeAssert[encoding.TextUnmarshaler](reflect.New(field)); ok {
			err = reader.UnmarshalText([]byte(text))
		}
		if err != nil {
			return err.Error()
		}
	case field == durations:
		if _, err = duration.Parse(text); err != nil {
			return "a duration with its unit, such as 500ms, 30s or 5m"
		}
	case kind >= reflect.Int && kind <= reflect.Uint64:
		if zeroBefore.MatchString(text) { // some read 010 as 8, others as 10
			return "a whole number without zeros before it"
		}
		if _, err = strconv.ParseInt(text, 0, 64); node.Type() != ast.IntegerType && err != nil && !errors.Is(err, strconv.ErrRange) {
			return "a whole number"
		}
	case kind == reflect.Bool && node.Type() != ast.BoolType:
		return "true or false"
	}
	return ""
}

// nodeAt returns the value at a path in the form of normalize, or its key if the value is absent;
// nil if the path does not exist.
func (d *Document) nodeAt(path string) ast.Node {
	for node, key := range d.values {
		if pathOf(node) == path {
			if node.Type() == ast.NullType && key != nil {
				return key
			}
			return node
		}
	}
	return nil
}

// values yields the values of all fields with their keys, and the items of all lists with nil.
func (d *Document) values(yield func(value, key ast.Node) bool) {
	if d.body == nil {
		return
	}
	more := true
	ast.Walk(visit(func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.MappingValueNode:
			more = more && yield(n.Value, n.Key)
		case *ast.SequenceNode:
			for _, item := range n.Values {
				more = more && yield(item, nil)
			}
		}
		return more
	}), d.body)
}

// firstToken returns the beginning of a node as people see it: for a mapping, its first key.
func firstToken(node ast.Node) *token.Token {
	switch n := node.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return n.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		return n.Key.GetToken()
	}
	return node.GetToken()
}

// wrap converts an error of the library to an *Error; about is the target type of the decoding, if
// any.
func (d *Document) wrap(err error, about reflect.Type) *Error {
	if own, ok := errors.AsType[*Error](err); ok { // from a Scalar
		return d.errorAt(own.token, own.Field, own.Reason)
	}
	var theirs yaml.Error
	if !errors.As(err, &theirs) || theirs.GetToken() == nil {
		return &Error{File: d.name, Reason: err.Error()}
	}
	e := d.errorAt(theirs.GetToken(), d.fieldAt(theirs.GetToken()), theirs.GetMessage())
	var unknown *yaml.UnknownFieldError
	var unexpected *yaml.UnexpectedNodeTypeError
	var mistyped *yaml.TypeError
	switch twice := alreadyDefined.FindStringSubmatch(e.Reason); {
	case twice != nil:
		e.Field, e.Reason = twice[1], "occurs twice, first in line "+twice[2]
	case errors.As(err, &unknown):
		e.Reason = "unknown field"
		if known := fields(about, parent(normalize(e.Field))); len(known) > 0 {
			e.Reason += ": want " + oneOf(known)
		}
	case errors.As(err, &unexpected):
		e.Reason = "is " + kind(unexpected.Actual) + ": want " + kind(unexpected.Expected)
	case errors.As(err, &mistyped) && words(mistyped.SrcType) != "" && words(mistyped.DstType) != "":
		e.Reason = "is " + words(mistyped.SrcType) + ": want " + words(mistyped.DstType)
	case strings.HasPrefix(e.Reason, "found character '\t'"):
		e.Reason = "a tab: want spaces, as YAML takes no tabs there"
	default:
		if found := bareStar.FindStringIndex(e.line()); found != nil {
			e.Column = found[0] + strings.IndexByte(e.line()[found[0]:], '*') + 1
			e.Reason = `a * has to be quoted: want "*"`
		}
	}
	return e
}

// kind describes a node's type without YAML's own terms.
func kind(t ast.NodeType) string {
	switch t {
	case ast.MappingType, ast.MappingValueType:
		return "a set of fields"
	case ast.SequenceType:
		return "a list"
	case ast.NullType:
		return "nothing"
	default:
		return "a single value"
	}
}

// words describes a Go type in the terms of a YAML file; empty if the library's own word is good.
func words(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a single value"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "a set of fields"
	default:
		return ""
	}
}

// zeroBefore matches 010 and -0660, but not 0 and 0x10.
var zeroBefore = regexp.MustCompile(`^[-+]?0[0-9_]`)

// alreadyDefined matches the library's message about a duplicate key, which has no type of its own
// during parsing.
var alreadyDefined = regexp.MustCompile(`^mapping key "(.*)" already defined at \[(\d+):`)

// bareStar matches an unquoted "*" that is meant as a value; YAML takes it for an alias.
var bareStar = regexp.MustCompile(`[:,\[{-]\s*\*\s*([,}\]#]|$)`)

// fieldAt returns the field that a token belongs to.
func (d *Document) fieldAt(at *token.Token) string {
	if d.body == nil || at == nil {
		return ""
	}
	field := ""
	ast.Walk(visit(func(node ast.Node) bool {
		if t := node.GetToken(); t != nil && t.Position != nil && at.Position != nil && t.Position.Offset == at.Position.Offset {
			if path := pathOf(node); len(path) > len(field) {
				field = path
			}
		}
		return true
	}), d.body)
	return field
}

type visit func(ast.Node) bool

// Visit continues while the function returns true.
func (v visit) Visit(node ast.Node) ast.Visitor {
	if v(node) {
		return v
	}
	return nil
}

// pathOf returns a node's path without its "$." and without quotes.
func pathOf(node ast.Node) string {
	return normalize(strings.TrimPrefix(strings.TrimPrefix(node.GetPath(), "$"), "."))
}

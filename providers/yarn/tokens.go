package yarn

import (
	"bytes"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// tokens reads JSON piece by piece. What it returns as bytes is good until the next piece is read:
// nothing is allocated for a key or a number.
type tokens struct {
	json    *jsontext.Decoder
	scratch []byte // the last string that had an escape in it
}

// tokensOf is lenient about what does not matter to a reader of queues: a key that comes twice, and
// strings that are not UTF-8.
func tokensOf(from io.Reader) tokens {
	return tokens{json: jsontext.NewDecoder(from, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
}

// next is the kind of the value that comes next. It is none of jsontext's kinds if there is no
// value; whatever is called then returns why.
func (t *tokens) next() jsontext.Kind { return t.json.PeekKind() }

// skip passes over the value that comes next.
func (t *tokens) skip() error { return t.json.SkipValue() } //nolint:wrapcheck // callers say where

// object calls field for every key of the object that comes next, and passes over anything else.
// field must read the value. The key is good until then.
func (t *tokens) object(field func(key []byte) error) error {
	if t.next() != jsontext.KindBeginObject {
		return t.skip()
	}
	return t.each(jsontext.KindEndObject, func() error {
		key, err := t.unquoted()
		if err != nil {
			return err
		}
		return field(key)
	})
}

// array calls element for every element of the array that comes next. element must read it.
func (t *tokens) array(element func() error) error {
	return t.each(jsontext.KindEndArray, element)
}

// each enters the object or array that comes next, and leaves it.
func (t *tokens) each(end jsontext.Kind, piece func() error) error {
	if _, err := t.json.ReadToken(); err != nil {
		return err //nolint:wrapcheck // callers say where
	}
	for t.next() != end {
		if err := piece(); err != nil {
			return err
		}
	}
	_, err := t.json.ReadToken()
	return err //nolint:wrapcheck // callers say where
}

// unquoted returns the string that comes next, or the key. Half of a surrogate pair is replaced;
// bytes that are not UTF-8 are as they came, unless there is an escape among them.
func (t *tokens) unquoted() ([]byte, error) {
	quoted, err := t.json.ReadValue()
	if err != nil || len(quoted) < 2 {
		return nil, err //nolint:wrapcheck // callers say where
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], nil
	}
	// It is a string: all that can be wrong is what has been replaced.
	t.scratch, _ = jsontext.AppendUnquote(t.scratch[:0], quoted)
	return t.scratch, nil
}

package yarn

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// tokens reads JSON piece by piece. What it returns as bytes is good until the next piece is read:
// nothing is allocated for a key or a number.
type tokens struct {
	json    *jsontext.Decoder
	scratch []byte // the last string that had an escape in it
}

// tokensOf lets a key come twice, as in readChildren, and strings that are not UTF-8 where nobody
// looks at them.
func tokensOf(from io.Reader) tokens {
	return tokens{json: jsontext.NewDecoder(from, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
}

// next is the kind of what comes next: of a value, or the end of an object or a list. It is
// KindInvalid if that is no JSON; whatever is called then returns why.
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
		if t.next() != jsontext.KindString { // another value would be read whole
			_, err := t.json.ReadToken()
			return err //nolint:wrapcheck // callers say where
		}
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

// unquoted returns the string that comes next, or the key. Half of a surrogate pair is replaced. A
// string that is not UTF-8 is as it came, with its escapes.
func (t *tokens) unquoted() ([]byte, error) {
	quoted, err := t.json.ReadValue()
	if err != nil {
		return nil, err //nolint:wrapcheck // callers say where
	}
	if bytes.IndexByte(quoted, '\\') < 0 || !utf8.Valid(quoted) {
		return quoted[1 : len(quoted)-1], nil
	}
	t.scratch, _ = jsontext.AppendUnquote(t.scratch[:0], quoted) // all that can be wrong has been replaced
	return t.scratch, nil
}

// end sees that nothing comes behind the answer.
func (t *tokens) end() error {
	_, err := t.json.ReadToken()
	_, is := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil || is:
		return malformed("something comes behind the answer")
	}
	return err //nolint:wrapcheck // of who reads
}

// malformedJSON is what is wrong with an answer, without the place: that is made of keys, which may
// repeat a secret of ours in parts, and is another one whenever an answer breaks off.
func malformedJSON(err error) *AnswerError {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return malformed("the answer ends early")
	}
	if syntax, is := errors.AsType[*jsontext.SyntacticError](err); is {
		err = syntax.Err
	}
	return &AnswerError{Refusal: Malformed, Err: err}
}

package yarn

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// tokens reads JSON token by token. Returned bytes are valid until the next read, so that keys and
// numbers need no allocation.
type tokens struct {
	json    *jsontext.Decoder
	scratch []byte // the last string that contained an escape
}

// tokensOf allows duplicate keys, as in readChildren, and invalid UTF-8 in skipped strings.
func tokensOf(from io.Reader) tokens {
	return tokens{json: jsontext.NewDecoder(from, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
}

// next returns the kind of the next token: a value, or the end of an object or list. It is
// KindInvalid for invalid JSON; the next call then returns the error.
func (t *tokens) next() jsontext.Kind { return t.json.PeekKind() }

// skip skips the next value.
func (t *tokens) skip() error { return t.json.SkipValue() } //nolint:wrapcheck // callers say where

// object calls field for every key of the next object, and skips any other value. field must read
// the value. The key is valid until then.
func (t *tokens) object(field func(key []byte) error) error {
	if t.next() != jsontext.KindBeginObject {
		return t.skip()
	}
	return t.each(jsontext.KindEndObject, func() error {
		if t.next() != jsontext.KindString { // reading another value would buffer all of it
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

// array calls element for every element of the next array. element must read it.
func (t *tokens) array(element func() error) error {
	return t.each(jsontext.KindEndArray, element)
}

// each enters the next object or array, and leaves it.
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

// unquoted returns the next string or key. It replaces half of a surrogate pair. It returns a
// string that is not UTF-8 unchanged, with its escapes.
func (t *tokens) unquoted() ([]byte, error) {
	quoted, err := t.json.ReadValue()
	if err != nil {
		return nil, err //nolint:wrapcheck // callers say where
	}
	if bytes.IndexByte(quoted, '\\') < 0 || !utf8.Valid(quoted) {
		return quoted[1 : len(quoted)-1], nil
	}
	t.scratch, _ = jsontext.AppendUnquote(t.scratch[:0], quoted) // only valid strings get here
	return t.scratch, nil
}

// end checks that nothing follows the answer.
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

// malformedJSON makes the error about invalid JSON, without the position. The position consists of
// keys, which may contain parts of our secrets, and it varies with every truncated answer.
func malformedJSON(err error) *AnswerError {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return malformed("the answer ends early")
	}
	if syntax, is := errors.AsType[*jsontext.SyntacticError](err); is {
		err = syntax.Err
	}
	return &AnswerError{Refusal: Malformed, Err: err}
}

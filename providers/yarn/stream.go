package yarn

import (
	"io"
	"strconv"
)

// Limits on single pieces of an answer. The longest strings in practice are access control lists of
// thousands of users.
const (
	maxString = 1 << 20  // bytes
	maxNumber = 512      // bytes
	maxKeys   = 64 << 10 // bytes of the keys of all open objects
	// maxNested bounds the nesting of lists and objects. A queue takes three levels. It is below
	// the decoder's own limit, so that all limits have the same error texts.
	maxNested = 9000
)

// stream passes JSON on to a decoder, with two changes. It replaces the words NaN, INF and Infinity
// outside of strings, which are not JSON, with empty strings: older ResourceManagers write them for
// missing numbers. And it bounds everything that the decoder keeps in memory as a whole: strings,
// numbers, the keys of all open objects, and blanks, which it collapses to one.
//
// It keeps the first error of its source, so that callers can distinguish it from an error in the
// JSON.
type stream struct {
	from io.Reader
	err  error

	inString, escaped bool
	length            int   // of the current string or number
	last              int   // length of the last string
	keys              []int // length of the last key of each open object; 0 for a list
	open              int   // their sum
	word              int   // letters seen of the word being replaced
	negative, blank   bool  // the last character
}

// Read returns at least one byte or an error; the decoder relies on that.
func (s *stream) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if s.err != nil {
			return 0, s.err
		}
		n, err := s.from.Read(p)
		s.err = err
		kept, refused := s.rewrite(p[:n])
		if refused != nil {
			s.err = refused
			return 0, refused
		}
		if kept > 0 {
			return kept, nil // the error comes with the next call
		}
	}
	return 0, nil
}

// rewrite replaces words and collapses blanks in the next bytes, in place. It returns the number of
// bytes that remain.
func (s *stream) rewrite(p []byte) (kept int, err error) {
	for i := 0; i < len(p); i++ {
		if s.inString {
			end := s.passString(p, i) + 1
			if s.length > maxString {
				return 0, &AnswerError{Refusal: Excessive, Detail: "a string of more than 1 MiB"}
			}
			kept += copy(p[kept:], p[i:end])
			i = end - 1
			continue
		}
		c := p[i]
		switch {
		case c == '"':
			s.inString, s.length, s.word, s.negative = true, 0, 0, false
		case s.word > 0 && isLetter(c), c == 'N', c == 'I':
			c = s.replacement()
		case '0' <= c && c <= '9' || c == '.':
			if s.length++; s.length > maxNumber {
				return 0, &AnswerError{Refusal: Excessive, Detail: "a number of more than 512 digits"}
			}
		default:
			s.length, s.word, s.negative = 0, 0, c == '-'
			if err := s.nest(c); err != nil {
				return 0, err
			}
		}
		before := s.blank
		s.blank = isBlank(c)
		if s.blank && before {
			continue
		}
		p[kept] = c
		kept++
	}
	return kept, nil
}

// nest tracks the open lists and objects, and their keys.
func (s *stream) nest(c byte) error {
	last := len(s.keys) - 1
	switch {
	case c == '{' || c == '[':
		if s.keys = append(s.keys, 0); len(s.keys) > maxNested {
			return &AnswerError{Refusal: Excessive, Detail: "nested more than " + strconv.Itoa(maxNested) + " deep"}
		}
	case last < 0: // the decoder rejects anything else
	case c == '}' || c == ']':
		s.open -= s.keys[last]
		s.keys = s.keys[:last]
	case c == ':':
		s.open += s.last - s.keys[last]
		if s.keys[last] = s.last; s.open > maxKeys {
			return &AnswerError{Refusal: Excessive, Detail: "more than 64 KiB of keys of objects that are open"}
		}
	}
	return nil
}

// passString skips to the end of the string, or of p, and returns the index of the last byte it
// took.
func (s *stream) passString(p []byte, i int) int {
	start := i
	for ; i < len(p); i++ {
		switch c := p[i]; {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = true
		case c == '"':
			s.inString, s.last, s.length = false, s.length+i-start, 0
			return i
		}
	}
	s.length += i - start
	return i - 1
}

// replacement returns the replacement of the next letter of a word: NaN becomes "" and a space.
// After a minus sign, as in -INF, the word becomes 0, because the sign is already written: the
// figures are never negative.
func (s *stream) replacement() byte {
	s.word++
	switch {
	case s.negative && s.word == 1:
		return '0'
	case !s.negative && s.word <= 2:
		return '"'
	}
	return ' '
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

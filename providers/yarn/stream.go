package yarn

import (
	"io"
	"strconv"
)

// What an answer may have in one piece. Lists of access control, of thousands of users, are the
// longest strings that were seen.
const (
	maxString = 1 << 20  // bytes
	maxNumber = 512      // bytes
	maxKeys   = 64 << 10 // bytes of the keys of all objects that are open
	// maxNested is how many lists and objects may stand in one another. A queue takes three. It is
	// below the bound of the reader behind, so that all bounds are told in the same words.
	maxNested = 9000
)

// stream hands JSON on to a reader of JSON, with two changes. Words outside of strings that JSON
// does not have, NaN, INF and Infinity, become empty strings: older ResourceManagers write a
// number so if there is none. And it bounds what the reader behind it keeps whole: strings,
// numbers, the keys of all objects that are open, and blanks, of which one stands for several.
//
// It keeps the first error of its source, so that this can be told from what is wrong with the
// JSON.
type stream struct {
	from io.Reader
	err  error

	inString, escaped bool
	length            int   // of the string or number at hand
	last              int   // length of the last string
	keys              []int // length of the last key of each object that is open; 0 of each list
	open              int   // their sum
	word              int   // letters seen of a word that is being replaced
	negative, blank   bool  // what came last
}

// Read never returns nothing without an error: the reader behind it relies on that.
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
			return kept, nil // the error, if any, comes with the next call
		}
	}
	return 0, nil
}

// rewrite reads the next bytes, replaces those words, and leaves out blanks, all in place. It
// returns how many bytes are left.
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

// nest follows the lists and objects that are open, and their keys.
func (s *stream) nest(c byte) error {
	last := len(s.keys) - 1
	switch {
	case c == '{' || c == '[':
		if s.keys = append(s.keys, 0); len(s.keys) > maxNested {
			return &AnswerError{Refusal: Excessive, Detail: "nested more than " + strconv.Itoa(maxNested) + " deep"}
		}
	case last < 0: // the reader behind refuses whatever else comes
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

// passString goes on to the end of the string, or of what is there, and returns the index of the
// last byte it took.
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

// replacement returns what stands for the next letter of a word: NaN becomes "" and a space. After
// a minus sign that has gone out already, as in -INF, it becomes 0: the least of what is never
// negative.
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

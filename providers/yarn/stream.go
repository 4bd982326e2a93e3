package yarn

import (
	"io"
	"strconv"
)

// What an answer may have in one piece. Lists of access control, of thousands of users, are the
// longest strings that were seen.
const (
	maxString = 1 << 20 // bytes
	maxNumber = 512     // bytes
	// maxNested is how many lists and objects may stand in one another. A queue takes three. The
	// reader behind has a bound of its own, which says nothing.
	maxNested = 9000
)

// stream hands JSON on to a reader of JSON, with two changes. Words outside of strings that JSON
// does not have, NaN, INF and Infinity, become empty strings: older ResourceManagers write a
// number so if there is none. And no string, number or key is longer than fits a cluster, because
// the reader behind it keeps these whole, and the keys of all objects that are open.
//
// It keeps the first error of its source, so that this can be told from what is wrong with the
// JSON.
type stream struct {
	from io.Reader
	err  error

	inString, escaped bool
	nested            int // lists and objects that are open
	length            int // of the string or number at hand
	last              int // length of the last string
	word              int // letters seen of a word that is being replaced
	negative          bool
}

// Read never returns nothing without an error: the reader behind it relies on that.
func (s *stream) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if s.err != nil {
			return 0, s.err
		}
		n, err := s.from.Read(p)
		s.err = err
		if refused := s.rewrite(p[:n]); refused != nil {
			s.err = refused
			return 0, refused
		}
		if n > 0 {
			return n, nil // the error, if any, comes with the next call
		}
	}
	return 0, nil
}

// rewrite reads the next bytes and replaces those words, in place and without changing their
// number.
func (s *stream) rewrite(p []byte) error {
	for i := 0; i < len(p); i++ {
		c := p[i]
		if s.inString {
			i = s.passString(p, i)
			if s.length > maxString {
				return &AnswerError{Refusal: Excessive, Detail: "a string of more than 1 MiB"}
			}
			continue
		}
		switch {
		case c == '"':
			s.inString, s.length, s.word, s.negative = true, 0, 0, false
		case s.word > 0 && isLetter(c):
			p[i] = s.replacement()
		case c == 'N' || c == 'I':
			p[i] = s.replacement()
		case '0' <= c && c <= '9' || c == '.':
			if s.length++; s.length > maxNumber {
				return &AnswerError{Refusal: Excessive, Detail: "a number of more than 512 digits"}
			}
		default:
			s.length, s.word, s.negative = 0, 0, c == '-'
			switch c {
			case '{', '[':
				s.nested++
			case '}', ']':
				s.nested--
			case ':':
				if s.last > maxName {
					return &AnswerError{Refusal: Excessive, Detail: "a key of " + strconv.Itoa(s.last) + " bytes"}
				}
			}
			if s.nested > maxNested {
				return &AnswerError{Refusal: Excessive, Detail: "nested more than " + strconv.Itoa(maxNested) + " deep"}
			}
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

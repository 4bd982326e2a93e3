package render

import (
	"os"
	"sync"
)

// stdout is the file to which an invocation writes its data, harmless for a terminal. It remembers
// the first error, so that a command whose output is lost does not end as if all were well:
// execute looks at it, and commands that print need not. After an error it writes nothing more.
// Any number of goroutines may write. The zero value has no file.
type stdout struct {
	file *os.File

	mu  sync.Mutex
	err error // guarded by mu; of type *outputError
}

// outputError is output that could not be written.
type outputError struct{ err error }

func (e *outputError) Error() string { return "the output is lost: " + e.err.Error() }

func (e *outputError) Unwrap() error { return e.err }

// write writes to the file text, or JSON, which must mean the same afterwards. The error is an
// *outputError.
func (s *stdout) write(text []byte, isJSON bool) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	n, err := Harmless{s.file, isJSON}.Write(text)
	if err != nil {
		s.err = &outputError{err}
	}
	return n, s.err
}

// lost is the first error; nil: all was written.
func (s *stdout) lost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

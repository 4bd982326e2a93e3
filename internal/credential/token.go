package credential

import (
	"bytes"
	"strings"
	"time"
)

// Token is the source of a client's bearer token.
type Token struct {
	// File holds only the token. Every user being able to read it is an error (want 0600 or 0640).
	// The next call uses a changed file.
	File string
	// Text is the token itself, for example from the environment. File takes precedence.
	Text string
}

// IsSet reports whether a token is configured.
func (t Token) IsSet() bool { return t != Token{} }

// TokenSource returns the current token.
type TokenSource struct {
	text  string
	files *bundle[string] // nil: text
}

// wantToken describes a correct token file.
const wantToken = "a file with a token and nothing else: bursar token create prints one"

// Open reads the file. Options.Field is the configuration field that names it. The error is a
// *FileError.
func (t Token) Open(options Options) (*TokenSource, error) {
	options = options.withDefaults()
	if options.Field == "" {
		options.Field = "tokenFile"
	}
	if t.File == "" {
		text, wrong := tokenOf([]byte(t.Text))
		if wrong != "" && t.Text != "" {
			return nil, &FileError{Field: options.Field, Wrong: wrong, Want: "a token: bursar token create prints one"}
		}
		return &TokenSource{text: text}, nil
	}
	f := file{options.Field, t.File, true, wantToken}
	files, err := openBundle([]file{f}, options, func(contents [][]byte, _ time.Time) (string, error) {
		text, wrong := tokenOf(contents[0])
		if wrong != "" {
			return "", f.wrong(wrong, nil)
		}
		return text, nil
	})
	if err != nil {
		return nil, err
	}
	return &TokenSource{files: files}, nil
}

// tokenOf reads a token. The fault does not contain the text, because even a wrong text may be
// secret.
func tokenOf(content []byte) (text, wrong string) {
	text = string(bytes.TrimSpace(content))
	switch {
	case text == "":
		return "", "is empty"
	case len(text) > 4096 || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", "is not one word"
	default:
		return text, ""
	}
}

// Token returns the current token; empty if there is none, or none yet.
func (s *TokenSource) Token() string {
	if s.files == nil {
		return s.text
	}
	if text := s.files.get(); text != nil {
		return *text
	}
	return ""
}

// Now returns the current token. For a source that was opened with Options.Later, it returns the
// reason why the token cannot be used yet.
func (s *TokenSource) Now() (string, error) {
	if s.files != nil {
		if err := s.files.unready(); err != nil {
			return "", err
		}
	}
	return s.Token(), nil
}

// Authorization returns the value of the header Authorization; empty if there is no token.
func (s *TokenSource) Authorization() string {
	if token := s.Token(); token != "" {
		return "Bearer " + token
	}
	return ""
}

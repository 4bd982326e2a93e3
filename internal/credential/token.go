package credential

import (
	"bytes"
	"strings"
	"time"
)

// Token says where a client's bearer token comes from.
type Token struct {
	// File holds the token and nothing else. It must not be readable for everybody (0600 or 0640).
	// A changed file is used for the next call.
	File string
	// Text is the token itself, as from the environment. File goes before it.
	Text string
}

// IsSet reports whether there is a token.
func (t Token) IsSet() bool { return t != Token{} }

// TokenSource knows the token of this moment.
type TokenSource struct {
	text  string
	files *bundle[string] // nil: text
}

// wantToken is what a file of a token must hold.
const wantToken = "a file with a token and nothing else: bursar token create prints one"

// Open reads the file. Options.Field is the field that names it. The error is a *FileError.
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

// tokenOf reads a token. What is wrong is said without its text, which may be a secret all the
// same.
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

// Token returns the token as it is now; empty if there is none, or none yet.
func (s *TokenSource) Token() string {
	if s.files == nil {
		return s.text
	}
	if text := s.files.get(); text != nil {
		return *text
	}
	return ""
}

// Now returns the token as it is now, or why it cannot be used yet, if it was opened with
// Options.Later.
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

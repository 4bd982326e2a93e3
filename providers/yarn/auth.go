package yarn

import (
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/bursar/bursar/internal/credential"
)

// authenticator proves our identity to a cluster. Methods may be called from any goroutine.
type authenticator interface {
	// transport returns a RoundTripper that authenticates us to one server only: the client follows
	// no redirects.
	transport(base http.RoundTripper, at address) http.RoundTripper
	// hide removes secrets from a text.
	hide(text string) string
	// close releases resources.
	close()
}

// openAuthenticator reads the files of the authentication method. The error is a
// *providers.SettingError.
func openAuthenticator(s settings, now func() time.Time) (authenticator, error) {
	switch s.auth {
	case authBasic:
		return openBasic(s, now)
	case authBearer:
		return openBearer(s, now)
	case authKerberos:
		return openKerberos(s, now)
	case authNone, authSimple:
	}
	return anonymous{}, nil
}

// anonymous sends no authentication header. The user name of the method simple is in the query.
type anonymous struct{}

func (anonymous) transport(base http.RoundTripper, _ address) http.RoundTripper { return base }
func (anonymous) hide(text string) string                                       { return text }
func (anonymous) close()                                                        {}

// basic sends a user name and a password with every request.
type basic struct {
	user     string
	password *credential.FileSet[string]
}

const (
	maxPassword  = 1024 // bytes
	wantPassword = "a file with the password and nothing else, in one line"
)

func openBasic(s settings, now func() time.Time) (*basic, error) {
	password, err := openSecret(settingPasswordFile, s.passwordFile, wantPassword, maxPassword, now)
	if err != nil {
		return nil, err
	}
	return &basic{user: s.user, password: password}, nil
}

// openSecret reads a secret from a file: one line of up to most bytes. It reads the file again
// when it changes. The error is a *providers.SettingError.
func openSecret(setting, path, want string, most int, now func() time.Time) (*credential.FileSet[string], error) {
	file := credential.File{Field: setting, Path: path, Secret: true, Want: want}
	secret, err := credential.OpenFileSet([]credential.File{file}, credential.Options{Now: now}, func(contents [][]byte) (string, error) {
		text := strings.TrimSuffix(strings.TrimSuffix(string(contents[0]), "\n"), "\r")
		switch {
		case text == "":
			return "", file.Wrong("is empty", nil)
		case len(text) > most || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return "", file.Wrong("is not one line", nil)
		case setting == settingTokenFile && strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
			return "", file.Wrong("has characters that no token has", nil)
		}
		return text, nil
	})
	if err != nil {
		return nil, fileSetting(err, nil)
	}
	return secret, nil
}

func (b *basic) transport(base http.RoundTripper, _ address) http.RoundTripper {
	return roundTrip(func(request *http.Request) (*http.Response, error) {
		request = request.Clone(request.Context()) // a RoundTripper must not change the request
		request.SetBasicAuth(b.user, *b.password.Get())
		return base.RoundTrip(request)
	})
}

// hide covers servers that repeat the request's header.
func (b *basic) hide(text string) string {
	return hideSecrets(text, b.sent(), *b.password.Get())
}

// sent returns the encoded form of user and password.
func (b *basic) sent() string {
	return base64.StdEncoding.EncodeToString([]byte(b.user + ":" + *b.password.Get()))
}

func (b *basic) close() {}

// bearer sends a token with every request (RFC 6750), such as a token of Knox or CDP.
type bearer struct{ token *credential.FileSet[string] }

// maxToken is far above the size of a signed token with many groups, in bytes, and below the header
// limit of servers.
const maxToken = 16 << 10

func openBearer(s settings, now func() time.Time) (*bearer, error) {
	token, err := openSecret(settingTokenFile, s.tokenFile, "a file with the token and nothing else, in one line", maxToken, now)
	if err != nil {
		return nil, err
	}
	return &bearer{token}, nil
}

func (b *bearer) transport(base http.RoundTripper, _ address) http.RoundTripper {
	return roundTrip(func(request *http.Request) (*http.Response, error) {
		request = request.Clone(request.Context()) // a RoundTripper must not change the request
		request.Header.Set("Authorization", "Bearer "+*b.token.Get())
		return base.RoundTrip(request)
	})
}

// hide covers servers that repeat the request's header.
func (b *bearer) hide(text string) string {
	return hideSecrets(text, *b.token.Get())
}

func (b *bearer) close() {}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

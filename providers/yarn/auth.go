package yarn

import (
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/bursar/bursar/internal/credential"
)

// authenticator says who we are. It may be used by many goroutines.
type authenticator interface {
	// transport returns a way to send requests to one server that authenticates us to that server
	// alone: redirects are not followed.
	transport(base http.RoundTripper, at address) http.RoundTripper
	// hide takes what is secret out of a text.
	hide(text string) string
	// close ends what is kept.
	close()
}

// openAuthenticator reads the files of the way to authenticate. The error is a
// *providers.SettingError.
func openAuthenticator(s settings, now func() time.Time) (authenticator, error) {
	switch s.auth {
	case authBasic:
		return openBasic(s, now)
	case authKerberos:
		return openKerberos(s, now)
	case authNone, authSimple:
	}
	return anonymous{}, nil
}

// anonymous sends nothing in the headers of a request. A user name, if there is one, is in its
// query.
type anonymous struct{}

func (anonymous) transport(base http.RoundTripper, _ address) http.RoundTripper { return base }
func (anonymous) hide(text string) string                                       { return text }
func (anonymous) close()                                                        {}

// basic shows a user name and a password with every request.
type basic struct {
	user     string
	password *credential.FileSet[string]
}

func openBasic(s settings, now func() time.Time) (*basic, error) {
	file := credential.File{Field: settingPasswordFile, Path: s.passwordFile, Secret: true, Want: "a file with the password and nothing else, in one line"}
	password, err := credential.OpenFileSet([]credential.File{file}, credential.Options{Now: now}, func(contents [][]byte) (string, error) {
		text := strings.TrimSuffix(strings.TrimSuffix(string(contents[0]), "\n"), "\r")
		switch {
		case text == "":
			return "", file.Wrong("is empty", nil)
		case len(text) > 1024 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return "", file.Wrong("is not one line", nil)
		}
		return text, nil
	})
	if err != nil {
		return nil, fileSetting(err, nil)
	}
	return &basic{user: s.user, password: password}, nil
}

func (b *basic) transport(base http.RoundTripper, _ address) http.RoundTripper {
	return roundTrip(func(request *http.Request) (*http.Response, error) {
		request = request.Clone(request.Context()) // a RoundTripper changes no request
		request.SetBasicAuth(b.user, *b.password.Get())
		return base.RoundTrip(request)
	})
}

// hide covers a server that repeats what it was sent.
func (b *basic) hide(text string) string {
	password := *b.password.Get()
	sent := base64.StdEncoding.EncodeToString([]byte(b.user + ":" + password))
	return strings.NewReplacer(sent, "***", password, "***").Replace(text)
}

func (b *basic) close() {}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

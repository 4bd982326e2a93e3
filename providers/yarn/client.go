package yarn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/providers"
)

const (
	connectTime = 2 * time.Second
	// idleTime is how long an idle connection stays open. It is longer than most intervals, so that
	// one connection serves a cluster.
	idleTime = 90 * time.Second
	// atOnce is the number of concurrent requests for applications, and of idle connections.
	atOnce = 4
	// maxHeader bounds the header of an answer in bytes. Hadoop's headers are below 2 KiB.
	maxHeader = 64 << 10
)

// dialer opens connections.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// server is a client of one ResourceManager or gateway, with its own connections and cookies.
// Methods may be called from any goroutine.
type server struct {
	address
	http      *http.Client
	transport *http.Transport
	// base is the path prefix of the REST interface; query is part of every request.
	base  string
	query url.Values
	// maxBytes bounds one answer.
	maxBytes int64
	// hide removes secrets from a server's text.
	hide func(string) string
	// dials counts opened connections. A new connection may lead to a restarted server.
	dials atomic.Int64
}

// newServer makes a client of one server. trust may be nil if no address has TLS, and through if
// there is no proxy.
func newServer(at address, s settings, identity authenticator, trust *credential.Client, through *proxy, budget *requestBudget, dial dialer) (*server, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, fmt.Errorf("cookies: %w", err)
	}
	made := &server{address: at, base: s.basePath, query: url.Values{}, maxBytes: s.maxBytes}
	made.hide = func(text string) string { return through.hide(identity.hide(text)) }
	if s.auth == authSimple {
		made.query.Set("user.name", s.user)
	}
	if dial == nil {
		dial = (&net.Dialer{Timeout: connectTime}).DialContext
	}
	made.transport = &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, connectTime)
			defer cancel()
			made.dials.Add(1)
			return dial(ctx, network, address)
		},
		// No proxy from the environment: tickets and passwords go only where the settings say.
		// ResourceManagers do not compress, and transparent decompression has no size limit.
		DisableCompression:     true,
		MaxIdleConnsPerHost:    atOnce,
		IdleConnTimeout:        idleTime,
		MaxResponseHeaderBytes: maxHeader,
	}
	if through != nil {
		through.use(made.transport, at)
	}
	if trust != nil {
		trust.Use(made.transport)
	}
	made.http = &http.Client{
		Transport:     identity.transport(budget.transport(made.transport), at),
		Jar:           jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return made, nil
}

// openTrust makes the TLS configuration from the settings. The error is a *providers.SettingError.
func openTrust(s settings, now func() time.Time) (*credential.Client, error) {
	trust, err := credential.ClientTLS{CA: s.ca, Cert: s.certificate, Key: s.key}.Open(credential.Options{Field: "tls", Now: now})
	if err != nil {
		return nil, fileSetting(err, map[string]string{"tls.ca": settingCA, "tls.cert": settingCertificate, "tls.key": settingKey})
	}
	return trust, nil
}

// fileSetting converts an error about a file into an error about the setting that names it. names
// maps fields to settings; any other field is already the name of a setting.
func fileSetting(err error, names map[string]string) error {
	wrong, ok := errors.AsType[*credential.FileError](err)
	if !ok {
		return err
	}
	name := wrong.Field
	if setting, ok := names[name]; ok {
		name = setting
	}
	return &providers.SettingError{Setting: name, Value: wrong.File, Want: wrong.Want + " (this one: " + wrong.Wrong + ")"}
}

// get requests a path below the base path and passes the answer to decode. The answer has the
// content type of JSON and a bounded length. The error is a *ServerError.
func (s *server) get(ctx context.Context, path string, query url.Values, decode func(io.Reader) error) error {
	if ctx.Err() != nil {
		return s.notAsked(ctx)
	}
	at := *s.url
	at.Path = s.base + path
	all := url.Values{}
	for _, values := range []url.Values{s.query, query} {
		maps.Copy(all, values)
	}
	at.RawQuery = all.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return s.failed(Unreachable, err)
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "bursar")
	response, err := s.http.Do(request)
	if err != nil {
		return s.unreachable(err)
	}
	defer response.Body.Close()
	if err := s.checkAnswer(response); err != nil {
		return err
	}
	if response.ContentLength > s.maxBytes {
		return s.failed(Senseless, &TooLargeError{s.maxBytes})
	}
	body := &boundedReader{r: response.Body, left: s.maxBytes, limit: s.maxBytes}
	if err := decode(body); err != nil {
		if body.err != nil { // the connection broke during the body
			return s.unreachable(body.err)
		}
		return s.malformedAnswer(err)
	}
	// Reads the body to its end, so that the connection can be reused.
	_, _ = io.CopyN(io.Discard, body, maxSaid)
	return nil
}

// failed makes the error of a server. No other function makes a ServerError, so no error text shows
// our secrets, even if the server repeats them.
func (s *server) failed(trouble Trouble, err error) *ServerError {
	return &ServerError{Address: s.String(), Trouble: trouble, Err: err, hide: s.hide}
}

// notAsked makes the error about a server that was not asked because ctx has ended.
func (s *server) notAsked(ctx context.Context) *ServerError {
	made := s.failed(NotAsked, ctx.Err())
	if errors.Is(made.Err, context.DeadlineExceeded) {
		made.Err = fmt.Errorf("no time was left: %w", made.Err)
	}
	return made
}

// boundedReader reads an answer up to a limit, and keeps the error of the underlying reader.
type boundedReader struct {
	r           io.Reader
	left, limit int64
	err         error
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// One more byte distinguishes an answer of exactly this length from a longer one.
		if n, err := b.r.Read(make([]byte, 1)); n == 0 && err != nil {
			return 0, b.failed(err)
		}
		return 0, &TooLargeError{b.limit}
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, b.failed(err)
}

func (b *boundedReader) failed(err error) error {
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return err
}

// unreachable makes the error about an absent or incomplete answer.
func (s *server) unreachable(err error) *ServerError {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the URL
	}
	if wrapped, ok := errors.AsType[*net.OpError](err); ok && wrapped.Source != nil {
		own := *wrapped
		// the local port changes with each connection, and each new message would be logged
		own.Source = nil
		err = &own
	}
	made := s.failed(Unreachable, err)
	var before *ProxyError
	_, kerberos := errors.AsType[*KerberosError](err)
	switch spent, is := errors.AsType[*BudgetError](err); {
	case kerberos:
		made.Trouble = NotAllowed
	case is:
		made.Trouble, made.Err = NotAsked, spent
	case errors.As(err, &before):
		made.Trouble, made.Err = NotAsked, before
	case errors.Is(err, context.DeadlineExceeded):
		made.Err = fmt.Errorf("nothing, or not all of it, came in time: %w", err)
	default:
		if advice := trustAdvice(err); advice != "" {
			made.Err = fmt.Errorf("%w: %s", err, advice)
		}
	}
	return made
}

// trustAdvice returns the remedy for a TLS failure; empty for other failures. Package credential
// has more detailed texts, but they name the settings of another configuration.
func trustAdvice(err error) string {
	if _, ok := errors.AsType[*credential.TrustError](credential.Describe(err)); !ok {
		return ""
	}
	_, verify := errors.AsType[*tls.CertificateVerificationError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	record = record || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
	switch {
	case verify:
		return "want an address and a " + settingCA + " that the server's certificate fits, and a certificate that has not expired"
	case record:
		return "the server does not speak TLS here: want http://"
	default:
		return "want a " + settingCertificate + " and a " + settingKey + " that the server takes"
	}
}

func (s *server) close() { s.transport.CloseIdleConnections() }

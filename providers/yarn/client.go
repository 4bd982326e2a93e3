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
	// idleTime is how long an open connection is kept: longer than most intervals, so that a
	// cluster is asked over one connection.
	idleTime = 90 * time.Second
	// atOnce is how many applications are asked for at the same time, and so how many connections
	// are kept.
	atOnce = 4
	// maxHeader bounds the head of an answer in bytes. Hadoop's are below 2 KiB.
	maxHeader = 64 << 10
)

// dialer opens connections.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// server is one ResourceManager, or a gateway, and what is kept for it: connections and cookies,
// which no other server sees. It may be used by many goroutines.
type server struct {
	address
	http      *http.Client
	transport *http.Transport
	// base is the path before those of the interface, query what each request has.
	base  string
	query url.Values
	// maxBytes bounds one answer.
	maxBytes int64
	// hide takes secrets out of what a server says.
	hide func(string) string
	// dials counts the connections that were opened. A new one may lead to a server that was
	// restarted.
	dials atomic.Int64
}

// newServer makes a server of a cluster. trust may be nil if no address has TLS,
// through if there is no proxy.
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
		// No proxy but the one that is named: tickets and passwords go where the settings say.
		// ResourceManagers do not compress; what unpacks itself has no bound
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

// openTrust makes what TLS needs of the settings. The error is a *providers.SettingError.
func openTrust(s settings, now func() time.Time) (*credential.Client, error) {
	trust, err := credential.ClientTLS{CA: s.ca, Cert: s.certificate, Key: s.key}.Open(credential.Options{Field: "tls", Now: now})
	if err != nil {
		return nil, fileSetting(err, map[string]string{"tls.ca": settingCA, "tls.cert": settingCertificate, "tls.key": settingKey})
	}
	return trust, nil
}

// fileSetting turns what is wrong with a file into what is wrong with the setting that names it.
// names has the settings by field; a field that is not there is a setting's name already.
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

// get asks for a path below the base path, and gives the answer to decode, which is JSON by its
// own account and of bounded length. The error is a *ServerError.
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
		if body.err != nil { // it broke while it was read
			return s.unreachable(body.err)
		}
		return s.malformedAnswer(err)
	}
	// To its end, so that the connection can be used again.
	_, _ = io.CopyN(io.Discard, body, maxSaid)
	return nil
}

// failed is what a server did in place of an answer. Errors of servers are made here alone: their
// texts show no secret of ours, whoever wrote these.
func (s *server) failed(trouble Trouble, err error) *ServerError {
	return &ServerError{Address: s.String(), Trouble: trouble, Err: err, hide: s.hide}
}

// notAsked is about a server that could not be asked any more, as ctx has ended.
func (s *server) notAsked(ctx context.Context) *ServerError {
	made := s.failed(NotAsked, ctx.Err())
	if errors.Is(made.Err, context.DeadlineExceeded) {
		made.Err = fmt.Errorf("no time was left: %w", made.Err)
	}
	return made
}

// boundedReader reads an answer up to a limit, and remembers how reading failed.
type boundedReader struct {
	r           io.Reader
	left, limit int64
	err         error
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// One byte more than allowed tells an answer of just this length from a longer one.
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

// unreachable describes why there is no answer, or only a part of one.
func (s *server) unreachable(err error) *ServerError {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // which leaves the URL out
	}
	if wrapped, ok := errors.AsType[*net.OpError](err); ok && wrapped.Source != nil {
		own := *wrapped
		// its port is another each time, and the message would be logged each time
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

// trustAdvice says what to do about TLS that failed; empty: it was something else. Package
// credential knows more, in the words of another configuration.
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

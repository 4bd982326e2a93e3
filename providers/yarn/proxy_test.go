package yarn

import (
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/test/certs"
)

// fakeProxy is an HTTP proxy. It demands user and password if they are set.
type fakeProxy struct {
	*httptest.Server
	user, password string
	forward        *http.Transport

	mu       sync.Mutex
	asked    []string // guarded by mu: "GET host" and "CONNECT host"
	lastHead http.Header
}

func newProxy(t *testing.T, user, password string) *fakeProxy {
	p := &fakeProxy{user: user, password: password, forward: &http.Transport{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(func() {
		p.Close()
		p.forward.CloseIdleConnections()
	})
	return p
}

func (p *fakeProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.Host)
	p.lastHead = r.Header.Clone()
	p.mu.Unlock()
	shown := &http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
	if user, password, _ := shown.BasicAuth(); user != p.user || password != p.password {
		w.Header().Set("Proxy-Authenticate", "Basic")
		http.Error(w, "who are you, "+user+" "+password+"?", http.StatusProxyAuthRequired)
		return
	}
	if r.Method != http.MethodConnect {
		r.RequestURI = ""
		r.Header.Del("Proxy-Authorization")
		response, err := p.forward.RoundTrip(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer response.Body.Close()
		maps.Copy(w.Header(), response.Header)
		w.WriteHeader(response.StatusCode)
		_, _ = io.Copy(w, response.Body)
		return
	}
	to, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer to.Close()
	from, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer from.Close()
	_, _ = io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
	_ = from.Close()
	<-done
}

func (p *fakeProxy) takeAsked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = nil
	return asked
}

func TestAClusterIsReadThroughItsProxy(t *testing.T) {
	dir := t.TempDir()
	ca := certs.New(t, "cluster")
	authority := ca.File(t, dir, "ca.pem")
	password := write(t, filepath.Join(dir, "password"), "s3cret\n")
	login := []string{"proxyUser", "bob", "proxyPasswordFile", password}
	for name, c := range map[string]struct {
		rm     *fakeRM
		more   []string
		method string
	}{
		"http":  {newRM(t), nil, "GET "},
		"https": {secureRM(t, ca, nil), []string{"ca", authority}, "CONNECT "},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := newProxy(t, "bob", "s3cret")
			settings := append([]string{"proxy", proxy.URL}, c.more...)
			p := openAt(t, kind{}, []*fakeRM{c.rm}, append(settings, login...)...)
			if s := snapshot(t, p); s.Server != c.rm.URL {
				t.Errorf("from %s", s.Server)
			}
			asked := proxy.takeAsked()
			if len(asked) == 0 || !strings.HasPrefix(asked[0], c.method+strings.TrimPrefix(c.rm.URL, name+"://")) {
				t.Errorf("the proxy was asked %q", asked)
			}
			if h := c.rm.request("/scheduler").Header; h.Get("Proxy-Authorization") != "" || h.Get("Authorization") != "" {
				t.Errorf("the server was shown %v", h)
			}

			// If the proxy demands or rejects a login, the error names the proxy and not the
			// server. Repeated secrets are hidden.
			proxy.password = "other"
			for _, more := range [][]string{nil, login} {
				_, err := openAt(t, kind{}, []*fakeRM{c.rm}, append(settings, more...)...).Snapshot(t.Context())
				if wantUnavailable(t, err, false); !strings.Contains(err.Error(), "proxyUser") || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "does not answer") {
					t.Errorf("with the wrong password: %v", err)
				}
			}
			proxy.Close()
			_, err := openAt(t, kind{}, []*fakeRM{c.rm}, append(settings, login...)...).Snapshot(t.Context())
			wantUnavailable(t, err, false)
			got := troubles(t, err)[c.rm.URL]
			if _, is := errors.AsType[*ProxyError](err); !is || got.Trouble != NotAsked || !strings.Contains(err.Error(), "the proxy "+proxy.URL+" does not answer: ") {
				t.Errorf("without the proxy: %v", err)
			}
		})
	}
}

// A proxy that accepts a connection and stays silent costs no more time than an unresponsive one.
func TestAProxyThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newNetwork()
		proxy := web.start(t, "proxy:3128")
		proxy.does("*", hang)
		p := openAt(t, kind{dial: web.dial}, nil, "addresses", "https://rm1", "proxy", "http://proxy:3128")
		begin := time.Now()
		_, err := p.Snapshot(t.Context())
		if wantUnavailable(t, err, false); !strings.Contains(err.Error(), "https://rm1 was not asked: the proxy http://proxy:3128 does not answer: ") {
			t.Errorf("%v", err)
		}
		if took := time.Since(begin); took != connectTime {
			t.Errorf("after %s", took)
		}
	})
}

func TestBearerShowsTheTokenOfThisMoment(t *testing.T) {
	clock := newClock()
	rm := newRM(t)
	file := write(t, filepath.Join(t.TempDir(), "token"), "eyJhbGciOi.one\n")
	p := openAt(t, kind{now: clock.Now}, []*fakeRM{rm}, "auth", "bearer", "tokenFile", file)
	for _, token := range []string{"eyJhbGciOi.one", "eyJhbGciOi.two"} {
		write(t, file, token)
		clock.advance(time.Hour)
		snapshot(t, p)
		if got := rm.request("/scheduler").Header.Get("Authorization"); got != "Bearer "+token {
			t.Errorf("%q", got)
		}
	}
	for name, answer := range map[string]http.HandlerFunc{
		"refused":  answerWith(401, "what is eyJhbGciOi.two?", "WWW-Authenticate", "Bearer"),
		"a place":  answerWith(302, "", "Location", "https://knox/login/eyJhbGciOi.two"),
		"a queue":  answerJSON(`{"scheduler":{"schedulerInfo":{"type":"eyJhbGciOi.two"}}}`),
		"a type":   answerWith(200, "", "Content-Type", "text/eyJhbGciOi.two"),
		"a scheme": answerWith(401, "", "WWW-Authenticate", "eyJhbGciOi.two"),
	} {
		rm.does("/scheduler", answer)
		_, err := p.Snapshot(t.Context())
		if err == nil || strings.Contains(err.Error(), "eyJ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

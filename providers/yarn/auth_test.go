package yarn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/test/certs"
)

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNobodyIsNamedWithoutAuth(t *testing.T) {
	rm := newRM(t)
	snapshot(t, openAt(t, kind{}, []*fakeRM{rm}))
	if r := rm.request("/scheduler"); r.URL.RawQuery != "" || r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" {
		t.Errorf("%s %v", r.URL, r.Header)
	}
}

func TestSimpleNamesTheUser(t *testing.T) {
	rm := newRM(t)
	rm.does("/apps/application_1_1", answerJSON(app(`"state":"RUNNING"`)))
	p := openAt(t, kind{}, []*fakeRM{rm}, "user", "alice&x=y")
	snapshot(t, p)
	if _, err := p.Applications(t.Context(), []string{"application_1_1"}); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]string{"/info": "", "/scheduler": "", "/apps/application_1_1": "deSelects=resourceRequests&"} {
		if got := rm.request(path).URL.RawQuery; got != want+"user.name=alice%26x%3Dy" {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func TestBasicShowsThePasswordOfThisMoment(t *testing.T) {
	clock := newClock()
	rm := newRM(t)
	file := write(t, filepath.Join(t.TempDir(), "password"), "s3cret with blanks \n")
	p := openAt(t, kind{now: clock.Now}, []*fakeRM{rm}, "auth", "basic", "user", "alice", "passwordFile", file)
	want := func(password string) {
		t.Helper()
		snapshot(t, p)
		if user, got, ok := rm.request("/scheduler").BasicAuth(); !ok || user != "alice" || got != password {
			t.Errorf("%q %q, want %q", user, got, password)
		}
	}
	want("s3cret with blanks ")
	write(t, file, "next")
	clock.advance(2 * time.Second)
	want("next")
	write(t, file, "")
	clock.advance(2 * time.Second)
	want("next") // an unusable file changes nothing

	// A server that repeats the request's header does not make the provider show the secret.
	rm.does("*", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "you said "+r.Header.Get("Authorization")+" and that is alice:next", http.StatusForbidden)
	})
	_, err := p.Snapshot(t.Context())
	if got := troubles(t, err)[rm.URL]; got.Trouble != NotAllowed || strings.Contains(err.Error(), "next") || strings.Contains(err.Error(), "YWxpY2U6bmV4dA") {
		t.Errorf("%v", err)
	}
}

// The target of a redirect gets neither a request nor credentials.
func TestNothingIsShownToOtherHosts(t *testing.T) {
	other := newRM(t)
	for _, status := range []int{301, 302, 303, 307, 308} {
		rm := newRM(t)
		file := write(t, filepath.Join(t.TempDir(), "password"), "secret")
		p := openAt(t, kind{}, []*fakeRM{rm}, "auth", "basic", "user", "alice", "passwordFile", file)
		snapshot(t, p)
		rm.does("*", answerWith(status, "", "Location", other.URL+"/ws/v1/cluster/scheduler"))
		if _, err := p.Snapshot(t.Context()); err == nil {
			t.Errorf("%d: followed", status)
		}
	}
	if asked := other.takeAsked(); len(asked) != 0 {
		t.Errorf("asked: %v", asked)
	}
}

// fakeTickets hands out tokens that contain the name of the service.
type fakeTickets struct {
	mu    sync.Mutex
	count int
	err   error
}

func (f *fakeTickets) token(_ context.Context, service string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	return fmt.Sprintf("%s#%d", service, f.count), f.err
}

func (f *fakeTickets) transport(base http.RoundTripper, at address) http.RoundTripper {
	return negotiate{base: base, tickets: f, service: "HTTP/" + at.host()}
}
func (f *fakeTickets) hide(text string) string { return text }
func (f *fakeTickets) close()                  {}

// guarded authenticates like Hadoop's AuthenticationFilter: a token is valid once and yields a
// cookie.
type guarded struct {
	rm     *fakeRM
	mu     sync.Mutex
	cookie string // the valid one
	used   map[string]bool
	none   bool // it sets no cookie
	asked  int
	offers []string
	tokens []string
}

func newGuarded(rm *fakeRM) *guarded {
	g := &guarded{rm: rm, used: map[string]bool{}, offers: []string{"Negotiate"}}
	inner := rm.Config.Handler
	rm.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.letIn(w, r) {
			inner.ServeHTTP(w, r)
		}
	})
	return g
}

func (g *guarded) letIn(w http.ResponseWriter, r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if cookie := r.Header.Get("Cookie"); g.cookie != "" && cookie == "hadoop.auth="+g.cookie {
		return true
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Negotiate "); ok && !g.used[token] {
		g.used[token] = true
		g.tokens = append(g.tokens, token)
		if !g.none {
			g.cookie = fmt.Sprintf(`"u=bursar&p=bursar@EXAMPLE.COM&t=kerberos&e=%d&s=x="`, len(g.used))
			w.Header().Set("Set-Cookie", "hadoop.auth="+g.cookie+"; Path=/; HttpOnly")
		}
		return true
	}
	g.asked++
	for _, offer := range g.offers {
		w.Header().Add("WWW-Authenticate", offer)
	}
	w.Header().Add("Set-Cookie", "hadoop.auth=; Path=/; HttpOnly")
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write([]byte("<html><body>Authentication required</body></html>"))
	return false
}

// startGuarded starts a ResourceManager with its guard. set configures the guard before the first
// request.
func startGuarded(t *testing.T, set func(*guarded)) (*fakeRM, *guarded) {
	rm := unstartedRM()
	g := newGuarded(rm)
	set(g)
	rm.Start()
	t.Cleanup(rm.Close)
	return rm, g
}

// openWith opens a provider with a test's authenticator.
func openWith(t *testing.T, identity authenticator, servers ...*fakeRM) *Provider {
	t.Helper()
	p := openAt(t, kind{}, servers)
	for _, s := range p.servers {
		s.http.Transport = identity.transport(s.transport, s.address)
	}
	return p
}

func TestTokenOnceThenTheCookie(t *testing.T) {
	rm, g := startGuarded(t, func(*guarded) {})
	tickets := &fakeTickets{}
	p := openWith(t, tickets, rm)
	for range 5 {
		snapshot(t, p)
	}
	if g.asked != 1 || tickets.count != 1 || g.tokens[0] != "HTTP/127.0.0.1#1" {
		t.Errorf("asked %d times, %d tokens: %v", g.asked, tickets.count, g.tokens)
	}
	if r := rm.request("/scheduler"); r.Header.Get("Authorization") != "" {
		t.Error("a token with a cookie that is good")
	}
	// The cookie has expired: the next request costs one more.
	g.mu.Lock()
	g.cookie = "gone"
	g.mu.Unlock()
	snapshot(t, p)
	if g.asked != 2 || tickets.count != 2 {
		t.Errorf("asked %d times, %d tokens", g.asked, tickets.count)
	}
}

func TestServerWithoutCookiesGetsATokenEachTime(t *testing.T) {
	rm, g := startGuarded(t, func(g *guarded) {
		g.none = true
		g.offers = []string{`Basic realm="x"`, `Digest x="y", negotiate`}
	})
	p := openWith(t, &fakeTickets{}, rm)
	for range 3 {
		snapshot(t, p)
	}
	if len(g.tokens) != 4 || g.asked != 4 { // one of them for /info
		t.Errorf("%v, asked %d times", g.tokens, g.asked)
	}
}

func TestCookiesAndTokensOfOneServerStayThere(t *testing.T) {
	one, guardOfOne := startGuarded(t, func(*guarded) {})
	two, guardOfTwo := startGuarded(t, func(*guarded) {})
	two.change(func() { two.state = "STANDBY" })
	p := openWith(t, &fakeTickets{}, one, two)
	for range 3 {
		snapshot(t, p)
	}
	one.change(func() { one.state = "STANDBY" })
	two.change(func() { two.state = "ACTIVE" })
	for range 3 {
		snapshot(t, p)
	}
	// on one host; cookies do not distinguish ports
	if guardOfOne.asked != 1 || guardOfTwo.asked != 1 {
		t.Errorf("asked %d and %d times", guardOfOne.asked, guardOfTwo.asked)
	}
}

func TestServerThatNeverHasEnoughIsAskedTwice(t *testing.T) {
	rm := newRM(t)
	rm.does("*", answerWith(401, "<html>again</html>", "WWW-Authenticate", "Negotiate"))
	tickets := &fakeTickets{}
	_, err := openWith(t, tickets, rm).Snapshot(t.Context())
	wantUnavailable(t, err, false)
	if got := paths(rm.takeAsked()); got != "/info×2" || tickets.count != 1 || troubles(t, err)[rm.URL].Trouble != NotAllowed {
		t.Errorf("asked %s, %d tokens, %v", got, tickets.count, err)
	}
	// Without an offer no token is made.
	rm.does("*", answerWith(401, "", "WWW-Authenticate", `Basic realm="Negotiate"`))
	if _, err = openWith(t, tickets, rm).Snapshot(t.Context()); tickets.count != 1 || !strings.Contains(err.Error(), "it wants Basic") {
		t.Errorf("%d tokens, %v", tickets.count, err)
	}
}

func TestNoTicketIsTold(t *testing.T) {
	rm, _ := startGuarded(t, func(*guarded) {})
	tickets := &fakeTickets{err: &KerberosError{Setting: settingKeytab, Advice: "make it again", Err: errors.New("no")}}
	_, err := openWith(t, tickets, rm).Snapshot(t.Context())
	wantUnavailable(t, err, false)
	if got := troubles(t, err)[rm.URL]; got.Trouble != NotAllowed || !strings.Contains(err.Error(), "make it again (setting keytab): no") {
		t.Errorf("%v", err)
	}
}

func TestApplicationsNegotiateBesideOneAnother(t *testing.T) {
	rm, g := startGuarded(t, func(g *guarded) { g.none = true })
	apps := &manyApps{asked: map[string]int{}, ended: map[string]bool{}}
	ids := manyIDs(50)
	for _, id := range ids {
		rm.does("/apps/"+id, apps.ServeHTTP)
	}
	got, err := openWith(t, &fakeTickets{}, rm).Applications(t.Context(), ids)
	if err != nil || len(got) != 50 || len(g.tokens) != 51 {
		t.Errorf("%d, %v, %d tokens", len(got), err, len(g.tokens))
	}
}

// secureRM starts a ResourceManager, or a gateway, with TLS.
func secureRM(t *testing.T, ca *certs.Authority, clients *certs.Authority) *fakeRM {
	t.Helper()
	issued := ca.Issue(t, certs.Request{Name: "rm", Hosts: []string{"127.0.0.1"}})
	pair, err := tls.X509KeyPair(issued.CertPEM, issued.KeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	rm := unstartedRM()
	rm.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clients != nil {
		rm.TLS.ClientAuth, rm.TLS.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		rm.TLS.ClientCAs.AppendCertsFromPEM(clients.PEM())
	}
	rm.StartTLS()
	t.Cleanup(rm.Close)
	return rm
}

func TestTLSWithItsOwnCAAndAClientCertificate(t *testing.T) {
	dir := t.TempDir()
	ca, clients := certs.New(t, "cluster"), certs.New(t, "clients")
	rm := secureRM(t, ca, clients)
	file := ca.File(t, dir, "ca.pem")
	certificate, key := clients.Issue(t, certs.Request{Name: "bursar"}).Files(t, dir, "bursar")
	snapshot(t, openAt(t, kind{}, []*fakeRM{rm}, "ca", file, "certificate", certificate, "key", key))
	if r := rm.request("/scheduler"); len(r.TLS.PeerCertificates) != 1 || r.TLS.PeerCertificates[0].Subject.CommonName != "bursar" {
		t.Errorf("%+v", r.TLS)
	}
	plain := newRM(t)
	for name, c := range map[string]struct {
		servers []*fakeRM
		more    []string
		want    string
	}{
		"no CA":                 {[]*fakeRM{rm}, nil, "want an address and a ca that the server's certificate fits"},
		"another CA":            {[]*fakeRM{rm}, []string{"ca", clients.File(t, dir, "other.pem")}, "want an address and a ca that the server's certificate fits"},
		"no client certificate": {[]*fakeRM{rm}, []string{"ca", file}, "want a certificate and a key that the server takes"},
	} {
		_, err := openAt(t, kind{}, c.servers, c.more...).Snapshot(t.Context())
		if wantUnavailable(t, err, false); !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "tls.") && !strings.Contains(err.Error(), "tls: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	plain.URL = strings.Replace(plain.URL, "http://", "https://", 1)
	_, err := openAt(t, kind{}, []*fakeRM{plain}, "ca", file).Snapshot(t.Context())
	if err == nil || !strings.Contains(err.Error(), "want http://") {
		t.Errorf("TLS to a plain server: %v", err)
	}
}

func TestKnoxWithBasicOverTLS(t *testing.T) {
	dir := t.TempDir()
	ca := certs.New(t, "knox")
	knox := secureRM(t, ca, nil)
	const base = "/gateway/default/resourcemanager/v1/cluster"
	knox.does("*", func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case user != "alice" || password != "secret":
			answerWith(401, "<html>HTTP ERROR 401</html>", "WWW-Authenticate", `BASIC realm="application"`)(w, r)
		case r.URL.Path == base+"/info":
			answerJSON(`{"clusterInfo":{"id":7,"startedOn":7,"haState":"ACTIVE"}}`)(w, r)
		case r.URL.Path == base+"/scheduler":
			answerJSON(fairAnswer(1024))(w, r)
		default:
			http.NotFound(w, r)
		}
	})
	settings := []string{"basePath", base + "/", "auth", "basic", "user", "alice", "passwordFile", write(t, filepath.Join(dir, "password"), "secret"), "ca", ca.File(t, dir, "ca.pem")}
	s := snapshot(t, openAt(t, kind{}, []*fakeRM{knox}, settings...))
	if s.Server != knox.URL || s.Incarnation != knox.URL+" 7" {
		t.Errorf("%+v", s)
	}
	settings[1] = "/gateway/other/resourcemanager/v1/cluster"
	if _, err := openAt(t, kind{}, []*fakeRM{knox}, settings...).Snapshot(t.Context()); err == nil || !strings.Contains(err.Error(), "there is no /gateway/other/resourcemanager/v1/cluster: see the setting basePath") {
		t.Errorf("another base path: %v", err)
	}
	write(t, filepath.Join(dir, "password"), "wrong")
	_, err := openAt(t, kind{}, []*fakeRM{knox}, settings...).Snapshot(t.Context())
	if err == nil || !strings.Contains(err.Error(), "it wants BASIC") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("another password: %v", err)
	}
}

func TestFilesThatCannotBeUsedAreSettingsThatAreWrong(t *testing.T) {
	dir := t.TempDir()
	open := write(t, filepath.Join(dir, "open"), "secret")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	lines := write(t, filepath.Join(dir, "lines"), "secret\nand more\n")
	blanks := write(t, filepath.Join(dir, "blanks"), "secret and more")
	for name, c := range map[string]struct {
		settings      map[string]string
		setting, want string
	}{
		"a password for everybody": {map[string]string{"auth": "basic", "user": "alice", "passwordFile": open}, "passwordFile", "chmod 0600"},
		"a password of two lines":  {map[string]string{"auth": "basic", "user": "alice", "passwordFile": lines}, "passwordFile", "is not one line"},
		"no password":              {map[string]string{"auth": "basic", "user": "alice", "passwordFile": dir + "/none"}, "passwordFile", "no such file"},
		"a token for everybody":    {map[string]string{"auth": "bearer", "tokenFile": open}, "tokenFile", "chmod 0600"},
		"a token of two lines":     {map[string]string{"auth": "bearer", "tokenFile": lines}, "tokenFile", "is not one line"},
		"a token with blanks":      {map[string]string{"auth": "bearer", "tokenFile": blanks}, "tokenFile", "has characters that no token has"},
		"no token":                 {map[string]string{"auth": "bearer", "tokenFile": dir + "/none"}, "tokenFile", "no such file"},
		"a proxy's for everybody":  {map[string]string{"proxy": "http://127.0.0.1:1", "proxyUser": "alice", "proxyPasswordFile": open}, "proxyPasswordFile", "chmod 0600"},
		"no CA":                    {map[string]string{"ca": dir + "/none"}, "ca", "no such file"},
		"no certificate":           {map[string]string{"certificate": open, "key": lines}, "certificate", "no certificate in PEM"},
		"a key for everybody":      {map[string]string{"certificate": lines, "key": open}, "key", "chmod 0600"},
	} {
		c.settings["addresses"] = "https://127.0.0.1:1"
		_, err := Kind().Open("prod", c.settings)
		wrong, ok := errors.AsType[*providers.SettingError](err)
		if !ok || wrong.Setting != c.setting || wrong.Value != c.settings[c.setting] || !strings.Contains(wrong.Want, c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

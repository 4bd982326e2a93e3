package yarn

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/test/certs"
)

// answerRaw answers with exactly these bytes.
func answerRaw(t *testing.T, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, text)
	}
}

// Whatever makes the answer invalid, the error text contains neither the token nor its beginning.
func TestAServerThatRepeatsTheTokenInAnythingItSends(t *testing.T) {
	token := "eyJhbGciOi." + strings.Repeat("abcdefgh+/==", 60)
	rm := newRM(t)
	file := write(t, filepath.Join(t.TempDir(), "token"), token)
	p := openAt(t, kind{}, []*fakeRM{rm}, "auth", "bearer", "tokenFile", file)
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	for name, answer := range map[string]http.HandlerFunc{
		"a line of the head":   answerRaw(t, ok+"X-Bad\x01: Bearer "+token+"\r\n\r\n{}"),
		"a place":              answerRaw(t, "HTTP/1.1 302 Found\r\nLocation: http://evil:1/\x1b[31m?tok="+token+"\r\n\r\n"),
		"a status":             answerRaw(t, "HTTP/1.1 "+token+"\r\n\r\n"),
		"no HTTP":              answerRaw(t, token+"\r\n\r\n"),
		"a length":             answerRaw(t, ok+"Content-Length: "+token+"\r\n\r\n{}"),
		"a long kind":          answerJSON(`{"scheduler":{"schedulerInfo":{"type":"` + strings.Repeat("x", 100) + token + `"}}}`),
		"a long exception":     answerJSON(`{"RemoteException":{"exception":"x","message":"` + strings.Repeat("x", 100) + token + `"}}`),
		"a text":               answerWith(200, strings.Repeat("x ", 60)+token, "Content-Type", "application/json"),
		"a key":                answerJSON(`{"headers":{"` + token[:200] + `":nothing}}`),
		"the end of a key":     answerJSON(`{"headers":{"` + strings.Repeat("x", 100) + token[:200] + `":`),
		"a place in an answer": answerWith(302, "", "Location", "https://knox/login/?a#"+token),
	} {
		rm.does("/scheduler", answer)
		_, err := p.Snapshot(t.Context())
		if err == nil || strings.Contains(err.Error(), "eyJ") || strings.Contains(err.Error(), "abcdefgh") || len(err.Error()) > 1200 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAProxyThatRepeatsThePassword(t *testing.T) {
	ca := certs.New(t, "cluster")
	dir := t.TempDir()
	rm := secureRM(t, ca, nil)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	proxy := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown := &http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
		_, password, _ := shown.BasicAuth()
		answerRaw(t, fmt.Sprintf(said, r.Header.Get("Proxy-Authorization"), password))(w, r)
	})}
	go func() { _ = proxy.Serve(listener) }()
	t.Cleanup(func() { proxy.Close() })
	p := openAt(t, kind{}, []*fakeRM{rm}, "ca", ca.File(t, dir, "ca.pem"), "proxy", "http://"+listener.Addr().String(),
		"proxyUser", "bob", "proxyPasswordFile", write(t, filepath.Join(dir, "password"), `s3"cret`))
	for _, text := range []string{
		"HTTP/1.1 407 no %s pw %s " + strings.Repeat("z", 50_000) + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX-Bad\x01: %s %s\r\n\r\n",
		"%s %s\r\n\r\n",
	} {
		said = text
		_, err := p.Snapshot(t.Context())
		if err == nil || strings.Contains(err.Error(), "s3") || strings.Contains(err.Error(), "Ym9i") || len(err.Error()) > 600 {
			t.Errorf("%v", err)
		}
	}
}

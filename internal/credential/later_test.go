package credential_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/test/certs"
)

// Missing files fail the calls that need them, and are used as soon as they exist.
func TestFilesThatComeLater(t *testing.T) {
	s := newSite(t)
	config, token := s.trusting(t), filepath.Join(s.dir, "token")
	config.CA = filepath.Join(s.dir, "later.pem")
	config.Cert, config.Key = filepath.Join(s.dir, "own.pem"), filepath.Join(s.dir, "own.key")
	if _, err := config.Open(credential.Options{}); err == nil {
		t.Error("without Later, a file that is missing is no error")
	}
	opened, err := config.Open(credential.Options{Now: s.clock.now, Later: true})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	opened.Use(transport)
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	missing := func(err error, file string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("got %v, want that %s is missing", err, file)
		}
	}
	_, err = s.get(client)
	missing(err, "later.pem")
	missing(opened.Unready(), "later.pem")
	if list := opened.Warnings(); len(list) == 0 {
		t.Error("no warning")
	}
	if opened.Config("h").RootCAs == nil {
		t.Error("the machine's CAs are trusted until the file of CAs is there")
	}
	replace(t, config.CA, s.ca.PEM())
	s.clock.advance(2 * time.Second)
	_, err = s.get(client)
	missing(err, "own.pem")
	cert, key := s.issue(t, "made", certs.Request{Name: "alice"})
	if err := os.Rename(key, config.Key); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(cert, config.Cert); err != nil {
		t.Fatal(err)
	}
	s.clock.advance(2 * time.Second)
	s.must(t, client, "alice HTTP/2.0")
	if err := opened.Unready(); err != nil {
		t.Error(err)
	}

	source, err := credential.Token{File: token}.Open(credential.Options{Now: s.clock.now, Later: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = source.Now()
	missing(err, "token")
	replace(t, token, []byte("word\n"))
	s.clock.advance(2 * time.Second)
	if text, err := source.Now(); text != "word" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	// What is wrong with a file is nothing that waiting mends.
	replace(t, token, []byte("two words\n"))
	if _, err := (credential.Token{File: token}).Open(credential.Options{Later: true}); err == nil {
		t.Error("a file with two words is taken for one that comes later")
	}
}

// A certificate and its key are replaced one after the other: in between, they do not match.
func TestWhatTimeMayMend(t *testing.T) {
	s := newSite(t)
	for name, c := range map[string]struct {
		spoil func()
		want  bool
	}{
		"another's key":  {func() { _, key := s.issue(t, "other", certs.Request{Hosts: []string{"127.0.0.1"}}); s.config.Key = key }, true},
		"missing":        {func() { s.config.Cert = "/nowhere/cert.pem" }, true},
		"no certificate": {func() { s.config.Cert = filepath.Join(s.dir, "text"); replace(t, s.config.Cert, []byte("text")) }, false},
		"folder":         {func() { s.config.Cert = s.dir }, false},
	} {
		before := s.config
		c.spoil()
		_, err := s.config.Open(credential.Options{})
		wrong, ok := err.(*credential.FileError) //nolint:errorlint // as documented
		if !ok || wrong.Transient() != c.want {
			t.Errorf("%s: %v, want it to pass: %t", name, err, c.want)
		}
		s.config = before
	}
}

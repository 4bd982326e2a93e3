package consul

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

// maxAnswer bounds what is read of one answer, in bytes: some 30,000 coordinators.
const maxAnswer = 32 << 20

// door is the way to Consul: it puts the token of the day on every request, and knows the certificates of the day. Files are looked at
// before every request, which is a few system calls; one that cannot be used, such as a half-written one, changes nothing.
type door struct {
	base     *http.Transport
	settings api.TLSConfig
	source   tokenSource
	log      *slog.Logger

	mu         sync.Mutex // guards what follows
	way        *http.Transport
	certs      [3]stamp
	tokenStamp stamp
	secret     string
	turns      uint64 // how often the secret has changed
}

// tokenSource is a token, or the file of one.
type tokenSource struct{ text, file string }

// tokenOf goes by Consul's own order: the configuration before the environment, there the file before the variable.
func tokenOf(c Config) tokenSource {
	switch {
	case c.TokenFile != "":
		return tokenSource{file: c.TokenFile}
	case c.Token != "":
		return tokenSource{text: c.Token}
	case os.Getenv(api.HTTPTokenFileEnvName) != "":
		return tokenSource{file: os.Getenv(api.HTTPTokenFileEnvName)}
	}
	return tokenSource{text: os.Getenv(api.HTTPTokenEnvName)}
}

// stamp tells one version of a file from the next.
type stamp struct {
	modified time.Time
	size     int64
	file     os.FileInfo
}

func stampOf(path string) stamp {
	if path == "" {
		return stamp{}
	}
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.ModTime(), info.Size(), info}
}

func (s stamp) same(other stamp) bool {
	return s.modified.Equal(other.modified) && s.size == other.size && (s.file == nil) == (other.file == nil) &&
		(s.file == nil || os.SameFile(s.file, other.file))
}

func newDoor(base *http.Transport, settings api.TLSConfig, source tokenSource, log *slog.Logger) (*door, error) {
	d := &door{base: base, settings: settings, source: source, log: log, secret: source.text}
	if source.file != "" {
		d.tokenStamp = stampOf(source.file)
		secret, err := readToken(source.file)
		if err != nil {
			return nil, err
		}
		d.secret = secret
	}
	d.certs = d.stamps()
	way, err := d.build()
	if err != nil {
		return nil, err
	}
	d.way = way
	return d, nil
}

func readToken(path string) (string, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	secret := strings.TrimSpace(string(data))
	if secret == "" || strings.ContainsAny(secret, " \t\r\n") {
		return "", fmt.Errorf("token file %s: want one token and nothing else", path)
	}
	return secret, nil
}

func (d *door) stamps() [3]stamp {
	return [3]stamp{stampOf(d.settings.CAFile), stampOf(d.settings.CertFile), stampOf(d.settings.KeyFile)}
}

func (d *door) build() (*http.Transport, error) {
	var config *tls.Config
	config, err := api.SetupTLSConfig(&d.settings)
	if err != nil {
		return nil, fmt.Errorf("TLS files: %w", err)
	}
	config.MinVersion = tls.VersionTLS12
	way := d.base.Clone()
	way.TLSClientConfig = config
	return way, nil
}

// RoundTrip implements http.RoundTripper.
func (d *door) RoundTrip(request *http.Request) (*http.Response, error) {
	way, secret := d.today()
	request = request.Clone(request.Context())
	if secret != "" {
		request.Header.Set("X-Consul-Token", secret)
	}
	response, err := way.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = http.MaxBytesReader(nil, response.Body, maxAnswer)
	return response, nil
}

// CloseIdleConnections is for http.Client.
func (d *door) CloseIdleConnections() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.way.CloseIdleConnections()
}

// today returns what the files say now, or what they said when they could last be used.
func (d *door) today() (*http.Transport, string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.source.file != "" {
		d.refreshTokenLocked()
	}
	if now := d.stamps(); !sameStamps(now, d.certs) {
		d.certs = now
		if way, err := d.build(); err != nil {
			d.log.Warn("Consul's TLS files cannot be used: those before stay in use", "error", err)
		} else {
			d.way.CloseIdleConnections() // those in use end with their answers
			d.way = way
		}
	}
	return d.way, d.secret
}

func (d *door) refreshTokenLocked() {
	now := stampOf(d.source.file)
	if now.same(d.tokenStamp) {
		return
	}
	d.tokenStamp = now
	secret, err := readToken(d.source.file)
	if err != nil {
		d.log.Warn("Consul's token cannot be read: the one before stays in use", "error", err)
		return
	}
	if secret != d.secret {
		d.secret = secret
		d.turns++
	}
}

func sameStamps(a, b [3]stamp) bool {
	return a[0].same(b[0]) && a[1].same(b[1]) && a[2].same(b[2])
}

func (d *door) token() string {
	_, secret := d.today()
	return secret
}

// tokenTurn counts the tokens there have been: what was done with an older one may have to be done again.
func (d *door) tokenTurn() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.turns
}

package consul

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery"
)

// The most that is read of one answer, in bytes, after it was decompressed (some 4,000
// coordinators), and of its headers.
const (
	maxAnswer  = 4 << 20
	maxHeaders = 64 << 10
)

// transport is the way to Consul: it puts the token on every request and makes the connections,
// with what the files say at that moment.
type transport struct {
	base  *http.Transport
	token *credential.TokenSource
}

// tokenOf goes by Consul's own order: the configuration before the environment, there the file
// before the variable.
func tokenOf(c Config) credential.Token {
	if c.TokenFile != "" || c.Token != "" {
		return credential.Token{File: c.TokenFile, Text: c.Token}
	}
	return credential.Token{File: os.Getenv(api.HTTPTokenFileEnvName), Text: os.Getenv(api.HTTPTokenEnvName)}
}

// newTransport changes the transport that it gets.
func newTransport(base *http.Transport, settings api.TLSConfig, source credential.Token, later bool, log *slog.Logger) (*transport, error) {
	secret, err := source.Open(credential.Options{Field: "consul.tokenFile", Log: log, Later: later})
	if err != nil {
		if wrong, ok := errors.AsType[*credential.FileError](err); ok {
			wrong.Want = "an ACL token of Consul and nothing else, not readable for everybody"
		}
		return nil, err
	}
	files, err := credential.ClientTLS{
		CA: settings.CAFile, Cert: settings.CertFile, Key: settings.KeyFile, ServerName: settings.Address,
	}.Open(credential.Options{Field: "consul.tls", Log: log, Later: later})
	if err != nil {
		return nil, err
	}
	if _, err := rootsOf(settings); err != nil && !later {
		return nil, err
	}
	base.MaxResponseHeaderBytes = maxHeaders
	dial := base.DialContext
	base.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := files.Unready(); err != nil {
			return nil, err
		}
		roots, err := rootsOf(settings)
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("address: %w", err)
		}
		config := files.Config(host)
		config.NextProtos = []string{"http/1.1"}
		config.InsecureSkipVerify = settings.InsecureSkipVerify // as the operator says
		if roots != nil {
			config.RootCAs = roots
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return secure, nil
	}
	if source.IsSet() {
		base.DialContext = discovery.DialKnown(dial) // what is dialed without TLS
	}
	return &transport{base: base, token: secret}, nil
}

// rootsOf reads the folder of CAs that only the environment can name; nil if there is none, or if
// a file goes before it.
func rootsOf(settings api.TLSConfig) (*x509.CertPool, error) {
	if settings.CAPath == "" || settings.CAFile != "" {
		return nil, nil //nolint:nilnil // said above
	}
	config, err := api.SetupTLSConfig(&api.TLSConfig{CAPath: settings.CAPath})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", api.HTTPCAPath, err)
	}
	return config.RootCAs, nil
}

// RoundTrip implements http.RoundTripper.
func (d *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	secret, err := d.token.Now()
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	if secret != "" {
		request = request.Clone(request.Context())
		request.Header.Set("X-Consul-Token", secret)
	}
	response, err := d.base.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = http.MaxBytesReader(nil, response.Body, maxAnswer)
	return response, nil
}

// CloseIdleConnections is for http.Client.
func (d *transport) CloseIdleConnections() { d.base.CloseIdleConnections() }

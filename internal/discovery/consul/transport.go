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

// Limits on one answer, in bytes: after decompression (about 4,000 coordinators), and for its
// headers.
const (
	maxAnswer  = 4 << 20
	maxHeaders = 64 << 10
)

// transport makes the connections to Consul and adds the token to every request, from the present
// content of the files.
type transport struct {
	base  *http.Transport
	token *credential.TokenSource
}

// tokenOf follows Consul's own order: the configuration before the environment, and there the file
// before the variable.
func tokenOf(c Config) credential.Token {
	if c.TokenFile != "" || c.Token != "" {
		return credential.Token{File: c.TokenFile, Text: c.Token}
	}
	return credential.Token{File: os.Getenv(api.HTTPTokenFileEnvName), Text: os.Getenv(api.HTTPTokenEnvName)}
}

// newTransport modifies base.
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
		config.InsecureSkipVerify = settings.InsecureSkipVerify // the operator's setting
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
		base.DialContext = discovery.DialKnown(dial) // for connections without TLS
	}
	return &transport{base: base, token: secret}, nil
}

// rootsOf reads the folder of CAs, which only the environment can name; nil if there is none, or if
// a file has priority.
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

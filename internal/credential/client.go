package credential

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"time"
)

// ClientTLS is the TLS configuration of a client: its CAs and its own certificate. The zero value
// trusts the CAs of the machine and has no certificate.
type ClientTLS struct {
	// CA is the file of the CAs that may have issued the server's certificate, in PEM. Default: the
	// CAs that the machine trusts. If the file changes, the next connection uses it. If the new
	// file is wrong, the old one stays in use.
	CA string `yaml:"ca"`
	// Cert is the file of the client's own certificate in PEM, followed by the CAs between it and
	// the root. Default: none.
	Cert string `yaml:"cert"`
	// Key is the file of the client's private key in PEM. It must not be readable for everybody
	// (0600 or 0640).
	Key string `yaml:"key"`
	// ServerName is the name that the server's certificate must have. Default: the name or address
	// of the server.
	ServerName string `yaml:"serverName"`
}

// IsSet reports whether any field is set.
func (c ClientTLS) IsSet() bool { return c != ClientTLS{} }

// Client holds the CAs that a client trusts, and its own certificate.
type Client struct {
	cert       file
	serverName string
	// organization is required in the subject of a server's certificate; empty: no requirement.
	organization string
	files        *bundle[clientFiles] // nil: there are none
	options      Options
}

// clientFiles is the parsed content of the files.
type clientFiles struct {
	roots       *x509.CertPool   // nil: the CAs of the machine
	certificate *tls.Certificate // nil: none
}

// Open reads the files, if any are configured. The error is a *FileError.
//
// With Options.Later it also succeeds if the files cannot be read yet.
func (c ClientTLS) Open(options Options) (*Client, error) {
	options = options.withDefaults()
	at := fieldPath(options.Field)
	ca := file{at("ca"), c.CA, false, wantCA}
	cert := file{at("cert"), c.Cert, false, wantCertificate}
	key := file{at("key"), c.Key, true, wantKey}
	switch {
	case c.Cert != "" && c.Key == "":
		return nil, key.wrong("is not set", nil)
	case c.Cert == "" && c.Key != "":
		return nil, cert.wrong("is not set", nil)
	}
	client := &Client{cert: cert, serverName: c.ServerName, options: options}
	var files []file
	if c.CA != "" {
		files = append(files, ca)
	}
	if c.Cert != "" {
		files = append(files, cert, key)
	}
	if len(files) == 0 {
		return client, nil
	}
	var err error
	client.files, err = openBundle(files, options, func(contents [][]byte, now time.Time) (made clientFiles, err error) {
		if c.CA != "" {
			if made.roots, err = authorities(ca, contents[0], now); err != nil {
				return made, err
			}
			contents = contents[1:]
		}
		if c.Cert == "" {
			return made, nil
		}
		own, err := pair(cert, key, contents[0], contents[1], x509.ExtKeyUsageClientAuth, now)
		made.certificate = &own
		return made, err
	})
	if err != nil {
		return nil, err
	}
	return client, nil
}

// Config returns the configuration of one connection to a host (name or address), from the current
// files.
func (c *Client) Config(host string) *tls.Config {
	if c.serverName != "" {
		host = c.serverName
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, ServerName: host, Time: c.options.Now,
		VerifyConnection: c.verify, // resumed sessions too; there are none
	}
	if c.files == nil {
		return config
	}
	now := c.files.get()
	if now == nil {
		config.VerifyConnection = func(tls.ConnectionState) error { return c.Unready() }
		config.RootCAs = x509.NewCertPool() // trust no CA
		return config
	}
	config.RootCAs = now.roots
	if now.certificate != nil {
		// Present the certificate even if the server names only other CAs: the server's refusal
		// then says more than that there was no certificate.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return now.certificate, nil }
	}
	return config
}

// Unready returns the reason why the client cannot connect yet; nil if it can. It returns an error
// only for files that were opened with Options.Later.
func (c *Client) Unready() error {
	if c.files == nil {
		return nil
	}
	return c.files.unready()
}

// handshakeTime bounds the TLS handshake.
const handshakeTime = 10 * time.Second

// Use makes a transport use this client for TLS. It dials with the transport's current DialContext.
func (c *Client) Use(transport *http.Transport) {
	dial := transport.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	transport.ForceAttemptHTTP2 = true
	transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := c.Unready(); err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("address: %w", err)
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err //nolint:wrapcheck // the dialer's error is complete
		}
		ctx, cancel := context.WithTimeout(ctx, handshakeTime)
		defer cancel()
		secure := tls.Client(conn, c.Config(host))
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err //nolint:wrapcheck // Describe handles it
		}
		return secure, nil
	}
}

// Warnings describes the faults of the current files, and a certificate that should be renewed.
func (c *Client) Warnings() []string {
	if c.files == nil {
		return nil
	}
	var leaf *x509.Certificate
	if now := c.files.get(); now != nil && now.certificate != nil {
		leaf = now.certificate.Leaf
	}
	return warnings(c.files.wrong(), c.cert, leaf, c.options.Now())
}

package credential

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync"
	"time"
)

// ServerTLS is the TLS configuration of a server.
type ServerTLS struct {
	// Cert is the file of the server's certificate in PEM, followed by the CAs between it and the
	// root. Without it the server does not use TLS. If the file changes, the next connection uses
	// it. If the new file is wrong, the old one stays in use.
	Cert string `yaml:"cert"`
	// Key is the file of the server's private key in PEM. It must not be readable for everybody
	// (0600 or 0640).
	Key string `yaml:"key"`
	// ClientCA is the file of the CAs that may have issued the certificates of clients, in PEM.
	// Default: none; clients then use tokens. If an operator removes a CA from the file, the server
	// refuses the next call with one of its certificates.
	ClientCA string `yaml:"clientCA"`
}

// IsSet reports whether any field is set.
func (c ServerTLS) IsSet() bool { return c != ServerTLS{} }

// Server holds a server's certificate, and the CAs of its clients.
type Server struct {
	cert    file
	files   *bundle[serverFiles]
	options Options
}

// serverFiles is the parsed content of the files.
type serverFiles struct {
	certificate tls.Certificate
	clients     *x509.CertPool // nil: the server takes no client certificates
	verified    *verifications
}

// Open reads the files. The error is a *FileError.
func (c ServerTLS) Open(options Options) (*Server, error) {
	options = options.withDefaults()
	at := fieldPath(options.Field)
	cert := file{at("cert"), c.Cert, false, wantCertificate}
	key := file{at("key"), c.Key, true, wantKey}
	switch {
	case c.Cert == "":
		return nil, cert.wrong("is not set", nil)
	case c.Key == "":
		return nil, key.wrong("is not set", nil)
	}
	files := []file{cert, key}
	if c.ClientCA != "" {
		files = append(files, file{at("clientCA"), c.ClientCA, false, wantCA})
	}
	s := &Server{cert: cert, options: options}
	var err error
	s.files, err = openBundle(files, options, func(contents [][]byte, now time.Time) (serverFiles, error) {
		made := serverFiles{verified: &verifications{until: make(map[[sha256.Size]byte]time.Time)}}
		var err error
		if made.certificate, err = pair(cert, key, contents[0], contents[1], x509.ExtKeyUsageServerAuth, now); err != nil {
			return made, err
		}
		if leaf := made.certificate.Leaf; len(leaf.DNSNames)+len(leaf.IPAddresses) == 0 {
			return made, &FileError{
				Field: cert.field, File: cert.path, Wrong: "has neither names nor addresses (subjectAltName)",
				Want: "a certificate for the names or addresses by which clients call this server",
			}
		}
		if len(contents) > 2 {
			made.clients, err = authorities(files[2], contents[2], now)
		}
		return made, err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func fieldPath(field string) func(string) string {
	if field == "" {
		field = "tls"
	}
	return func(name string) string { return field + "." + name }
}

// Config returns the configuration of a listener. A client may present a certificate or none. The
// handshake does not verify it. Verify does this for each call, so that the refusal is an answer
// with a reason. A refusal that ends the handshake often gets lost with the connection.
func (s *Server) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		SessionTicketsDisabled: true, // each connection checks the files
		GetConfigForClient:     s.forClient,
	}
}

func (s *Server) forClient(*tls.ClientHelloInfo) (*tls.Config, error) {
	now := s.files.get()
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, SessionTicketsDisabled: true,
		Certificates: []tls.Certificate{now.certificate}, Time: s.options.Now,
	}
	if now.clients == nil {
		return c, nil
	}
	c.ClientAuth, c.ClientCAs = tls.RequestClientCert, now.clients
	return c, nil
}

// Verify returns the client certificate of a connection, if a CA in the current file has issued it.
// It returns nil if the client presented none. The error is a *CertificateError. It is cheap enough
// for every call: the server caches a verified certificate until it expires or the files change.
func (s *Server) Verify(state *tls.ConnectionState) (*x509.Certificate, error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil, nil //nolint:nilnil // no certificate is nil
	}
	leaf := state.PeerCertificates[0]
	current := s.files.get()
	if current.clients == nil {
		return nil, &CertificateError{Subject: leaf.Subject.String(), Want: "none: this server takes no certificates of clients (tls.clientCA is not set)"}
	}
	now := s.options.Now()
	if current.verified.contains(leaf, now) {
		return leaf, nil
	}
	between := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	chains, err := leaf.Verify(x509.VerifyOptions{
		Roots: current.clients, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, refusal(leaf, err, now)
	}
	current.verified.add(leaf, chains[0])
	return leaf, nil
}

// refusal returns the error for a client certificate that failed verification.
func refusal(leaf *x509.Certificate, err error, now time.Time) error {
	e := &CertificateError{Subject: leaf.Subject.String(), Err: err, Want: "one from a CA in the server's tls.clientCA, issued for clientAuth"}
	if wrong := whyInvalid(leaf, now); wrong != "" {
		e.Err, e.Want = errors.New(wrong), "one that is valid now"
	}
	return e
}

// Warnings describes the faults of the current files, and a certificate that should be renewed.
func (s *Server) Warnings() []string {
	return warnings(s.files.wrong(), s.cert, s.files.get().certificate.Leaf, s.options.Now())
}

func warnings(fault string, cert file, leaf *x509.Certificate, now time.Time) []string {
	var list []string
	if fault != "" {
		list = append(list, fault+" (the earlier file stays in use)")
	}
	if leaf != nil {
		if old := renewalWarning(cert, leaf, now); old != "" {
			list = append(list, old)
		}
	}
	return list
}

// verifications is the cache of verified certificates, by their SHA-256, each with the time at
// which its verification ends.
type verifications struct {
	mu    sync.Mutex
	until map[[sha256.Size]byte]time.Time // guarded by mu
}

// maxVerified bounds the cache. A full cache is emptied, and each certificate is verified again.
const maxVerified = 10_000

func (v *verifications) contains(leaf *x509.Certificate, now time.Time) bool {
	sum := sha256.Sum256(leaf.Raw)
	v.mu.Lock()
	defer v.mu.Unlock()
	until, found := v.until[sum]
	return found && !now.After(until) && !now.Before(leaf.NotBefore)
}

func (v *verifications) add(leaf *x509.Certificate, chain []*x509.Certificate) {
	until := leaf.NotAfter
	for _, c := range chain {
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.until) >= maxVerified {
		clear(v.until)
	}
	v.until[sha256.Sum256(leaf.Raw)] = until
}

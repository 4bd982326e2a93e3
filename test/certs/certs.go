// Package certs is a certificate authority for tests: it issues certificates for servers and
// clients, valid or not, and writes them to files. It stands on a low floor, so that the tests of
// every package can use it. An Authority may be used by many goroutines.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority issues certificates.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Request says what a certificate is to be. The zero value of a time is an hour from now, into the
// past or the future.
type Request struct {
	// Name is the subject's common name, Organization its organizations, such as "bursar:agent".
	Name         string
	Organization []string
	// Hosts are names and addresses of a server. Without any it is a certificate for clients.
	Hosts []string
	// Both makes a server's certificate good for clients, too.
	Both                bool
	NotBefore, NotAfter time.Time
}

// Certificate is one that was issued, with its key.
type Certificate struct {
	CertPEM, KeyPEM []byte
}

// New makes an authority.
func New(tb testing.TB, name string) *Authority {
	tb.Helper()
	return NewUntil(tb, name, time.Now().Add(24*time.Hour))
}

// NewUntil makes an authority that is valid until then.
func NewUntil(tb testing.TB, name string, until time.Time) *Authority {
	tb.Helper()
	template := &x509.Certificate{
		SerialNumber: serial(tb), Subject: pkix.Name{CommonName: name}, NotBefore: until.Add(-48 * time.Hour), NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key := newKey(tb)
	return &Authority{certificate: sign(tb, template, template, key, key), key: key}
}

// Issue makes a certificate.
func (a *Authority) Issue(tb testing.TB, r Request) Certificate {
	tb.Helper()
	if r.NotBefore.IsZero() {
		r.NotBefore = time.Now().Add(-time.Hour)
	}
	if r.NotAfter.IsZero() {
		r.NotAfter = time.Now().Add(time.Hour)
	}
	template := &x509.Certificate{
		SerialNumber: serial(tb), Subject: pkix.Name{CommonName: r.Name, Organization: r.Organization},
		NotBefore: r.NotBefore, NotAfter: r.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if len(r.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if len(r.Hosts) == 0 || r.Both {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	for _, host := range r.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key := newKey(tb)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return Certificate{
		CertPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: sign(tb, template, a.certificate, key, a.key).Raw}),
		KeyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}
}

// PEM returns the authority's own certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// File writes the authority's own certificate to DIR/NAME and returns the path.
func (a *Authority) File(tb testing.TB, dir, name string) string {
	tb.Helper()
	return write(tb, filepath.Join(dir, name), a.PEM(), 0o644)
}

// Files writes DIR/NAME.pem and DIR/NAME.key and returns their paths. It replaces files that
// exist, and does not write into them.
func (c Certificate) Files(tb testing.TB, dir, name string) (cert, key string) {
	tb.Helper()
	return write(tb, filepath.Join(dir, name+".pem"), c.CertPEM, 0o644), write(tb, filepath.Join(dir, name+".key"), c.KeyPEM, 0o600)
}

func write(tb testing.TB, path string, content []byte, mode os.FileMode) string {
	tb.Helper()
	next := path + ".new"
	if err := os.WriteFile(next, content, mode); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		tb.Fatal(err)
	}
	return path
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func serial(tb testing.TB) *big.Int {
	tb.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func sign(tb testing.TB, template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) *x509.Certificate {
	tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		tb.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return made
}

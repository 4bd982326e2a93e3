package credential

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	wantCertificate = "a file in PEM with the certificate first and then those of the CAs between it and the root"
	wantKey         = "a file in PEM with the private key of the certificate, not encrypted"
	wantCA          = "a file in PEM with the certificates of the CAs to trust"
)

// pair makes a certificate from its two files. The certificate must be valid for usage.
func pair(cert, key file, certPEM, keyPEM []byte, usage x509.ExtKeyUsage, now time.Time) (tls.Certificate, error) {
	chain, err := certificates(cert, certPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf := chain[0]
	if wrong := whyInvalid(leaf, now); wrong != "" {
		return tls.Certificate{}, &FileError{Field: cert.field, File: cert.path, Wrong: wrong, Later: true, Want: "a certificate that is valid now: renew it, or set this machine's clock"}
	}
	if len(leaf.ExtKeyUsage) > 0 && !slices.Contains(leaf.ExtKeyUsage, usage) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
		return tls.Certificate{}, &FileError{
			Field: cert.field, File: cert.path, Wrong: "its extended key usage does not allow " + usageName(usage),
			Want: "a certificate that was issued for " + usageName(usage),
		}
	}
	if strings.Contains(string(keyPEM), "ENCRYPTED") {
		return tls.Certificate{}, key.wrong("is encrypted", nil)
	}
	made, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		wrong := key.wrong(strings.TrimPrefix(err.Error(), "tls: "), err)
		wrong.Later = strings.Contains(err.Error(), "does not match") // one may be replaced soon
		return tls.Certificate{}, wrong
	}
	made.Leaf = leaf
	return made, nil
}

func usageName(usage x509.ExtKeyUsage) string {
	if usage == x509.ExtKeyUsageServerAuth {
		return "serverAuth"
	}
	return "clientAuth"
}

// certificates reads all certificates of a file, which must have at least one.
func certificates(f file, content []byte) ([]*x509.Certificate, error) {
	var chain []*x509.Certificate
	for rest := content; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue // the file may also hold a key
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, f.wrong(strings.TrimPrefix(err.Error(), "x509: "), err)
		}
		chain = append(chain, c)
	}
	if len(chain) == 0 {
		return nil, f.wrong("has no certificate in PEM", nil)
	}
	return chain, nil
}

// authorities reads a file of CAs. At least one must be valid; old bundles have expired ones too.
func authorities(f file, content []byte, now time.Time) (*x509.CertPool, error) {
	all, err := certificates(f, content)
	if err != nil {
		return nil, err
	}
	pool, wrong := x509.NewCertPool(), ""
	valid := false
	for _, c := range all {
		pool.AddCert(c)
		if wrong = whyInvalid(c, now); wrong == "" {
			valid = true
		}
	}
	if !valid {
		return nil, &FileError{Field: f.field, File: f.path, Wrong: wrong, Later: true, Want: "the certificate of a CA that is valid now"}
	}
	return pool, nil
}

// whyInvalid returns the reason why a certificate is not valid now; empty if it is valid.
func whyInvalid(c *x509.Certificate, now time.Time) string {
	switch {
	case now.After(c.NotAfter):
		return "expired at " + c.NotAfter.UTC().Format(time.RFC3339)
	case now.Before(c.NotBefore):
		return "is not valid before " + c.NotBefore.UTC().Format(time.RFC3339)
	default:
		return ""
	}
}

// renewalWarning returns a warning if less than a fifth of a certificate's lifetime is left.
func renewalWarning(f file, c *x509.Certificate, now time.Time) string {
	left := c.NotAfter.Sub(now)
	switch {
	case left <= 0:
		return fmt.Sprintf("%s: %s expired at %s: renew it", f.field, f.path, c.NotAfter.UTC().Format(time.RFC3339))
	case left < c.NotAfter.Sub(c.NotBefore)/5:
		return fmt.Sprintf("%s: %s expires at %s: renew it", f.field, f.path, c.NotAfter.UTC().Format(time.RFC3339))
	default:
		return ""
	}
}

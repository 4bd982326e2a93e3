package credential

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
)

// TrustError is the error of a connection that failed because one end does not trust the other,
// with advice.
type TrustError struct {
	Err    error
	Advice string
}

func (e *TrustError) Error() string { return e.Err.Error() + ": " + e.Advice }

// Unwrap returns the error of the connection.
func (e *TrustError) Unwrap() error { return e.Err }

// Describe adds advice to the error of a client's call that failed for lack of trust, as a
// *TrustError. It returns other errors, and those with advice, unchanged.
func Describe(err error) error {
	if err == nil {
		return nil
	}
	if _, already := errors.AsType[*TrustError](err); already {
		return err
	}
	advice := serverAdvice(err)
	if advice == "" {
		advice = alertAdvice(err.Error())
	}
	if advice == "" {
		return err
	}
	return &TrustError{Err: err, Advice: advice}
}

// serverAdvice returns advice about a server certificate that the client has refused.
func serverAdvice(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "want tls.ca to name the file of the CA that has issued the server's certificate"
	}
	if wrong, ok := errors.AsType[x509.HostnameError](err); ok {
		return "want an address that the server's certificate has (" + namesOf(wrong.Certificate) +
			"), tls.serverName set to one of them, or a certificate of the server that has this one"
	}
	if other, ok := errors.AsType[*OrganizationError](err); ok {
		return "want a certificate of the server with O = \"" + other.Want +
			"\", or tls.serverName set to a name that certificates of such servers alone have"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		switch invalid.Reason {
		case x509.Expired:
			return "the server has to be given a new certificate; or this machine's clock is wrong"
		case x509.IncompatibleUsage:
			return "the server's certificate was not issued for servers: want one with the extended key usage serverAuth"
		default:
			return "the server has to be given another certificate"
		}
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return "the server does not speak TLS here: want http://, or TLS at the server"
	}
	return ""
}

func namesOf(c *x509.Certificate) string {
	if c == nil {
		return "none"
	}
	names := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// alertAdvice returns advice about the TLS alert of a server that has closed the connection. The
// library has no types for alerts, and over HTTP/2 only the text of the error is left.
func alertAdvice(text string) string {
	const prefix = "remote error: tls: "
	switch {
	case strings.Contains(text, prefix+"certificate required"):
		return "want a client certificate: tls.cert and tls.key"
	case strings.Contains(text, prefix+"bad certificate"), strings.Contains(text, prefix+"unknown certificate"),
		strings.Contains(text, prefix+"expired certificate"), strings.Contains(text, prefix+"unknown certificate authority"):
		return "the server refuses the certificate of this client: want one in tls.cert that has not expired, from a CA in the server's tls.clientCA, " +
			"issued for clientAuth; the server's log says what is wrong with it"
	case strings.Contains(text, prefix+"protocol version not supported"):
		return "want a server and a client that speak TLS 1.2 or later"
	default:
		return ""
	}
}

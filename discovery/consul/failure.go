package consul

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/consul/api"
)

// ErrNotConsul says that an answer lacks what every one of Consul's has.
var ErrNotConsul = errors.New("the answer has no index: something else than Consul gave it")

// Error is a call to Consul that failed.
type Error struct {
	// Where is the address that was called.
	Where string
	// Doing says what the call was for.
	Doing string
	// Hint says what to change; empty where Consul is away or troubled, and only time helps.
	Hint string
	Err  error
}

func (e *Error) Error() string {
	text := fmt.Sprintf("Consul at %s: %s: %v", e.Where, e.Doing, e.Err)
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Refused reports that Consul, or the check of who it is, said no: time alone does not help.
func (e *Error) Refused() bool { return e.Hint != "" }

// Refused reports that an error of this package, anywhere in the chain, is one that time alone does not mend.
func Refused(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Refused()
}

// Explain wraps the error of a call with what it was for, and what to do about it. It keeps nil.
func (c *Client) Explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Where: c.where, Doing: doing, Hint: c.hint(err), Err: err}
}

func (c *Client) hint(err error) string {
	var (
		status       api.StatusError
		unknown      x509.UnknownAuthorityError
		name         x509.HostnameError
		invalid      x509.CertificateInvalidError
		verification *tls.CertificateVerificationError
		alert        tls.AlertError
		notTLS       tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &status):
		return c.statusHint(status)
	case errors.As(err, &unknown):
		return "the certificate is not from an authority that is trusted here: set consul.tls.ca (or CONSUL_CACERT) to Consul's CA"
	case errors.As(err, &name):
		return "the certificate is for another name: set consul.tls.serverName (or CONSUL_TLS_SERVER_NAME) to one that it has, such as server.dc1.consul"
	case errors.As(err, &invalid), errors.As(err, &verification):
		return "the certificate is not valid: see its dates and its use, and the clock of this machine"
	case errors.As(err, &alert):
		return "Consul does not take our certificate: set consul.tls.cert and consul.tls.key (or CONSUL_CLIENT_CERT and CONSUL_CLIENT_KEY)"
	case errors.As(err, &notTLS), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "it speaks HTTP without TLS: set consul.address to http://… or to the HTTPS port"
	}
	return ""
}

func (c *Client) statusHint(status api.StatusError) string {
	switch {
	case status.Code == http.StatusForbidden && c.door.token() == "":
		return "set consul.token or consul.tokenFile (or CONSUL_HTTP_TOKEN_FILE) to a token that may do this"
	case status.Code == http.StatusForbidden, status.Code == http.StatusUnauthorized:
		return "the token may not do this: a coordinator needs service:write for " + c.config.Service +
			", session:write for its node, key:write below bursar/ and node:read; an agent needs service:read and node:read"
	case status.Code == http.StatusBadRequest && strings.Contains(status.Body, "HTTPS"):
		return "it speaks TLS: set consul.address to https://…"
	}
	return ""
}

package credential

import (
	"crypto/tls"
	"fmt"
	"slices"
)

// OrganizationError refuses a server with a good certificate of another organization than was to
// be called.
type OrganizationError struct {
	Subject string // of the certificate
	Want    string // the organization that it lacks
}

func (e *OrganizationError) Error() string {
	return fmt.Sprintf("the certificate of %q does not have O = %q", e.Subject, e.Want)
}

// Require returns a client like this one that calls only servers whose certificate has an
// organization (O) in its subject. It is for servers whose address comes from a source that is not
// trusted. Such an address may be that of any machine with a certificate of the CA, so a
// certificate for that name proves nothing. If ServerName is configured, the certificate must have
// that name instead: the operator has chosen it, for CAs that put nothing into the subject.
func (c *Client) Require(organization string) *Client {
	strict := *c
	if c.serverName == "" {
		strict.organization = organization
	}
	return &strict
}

// verify is called after the chain and the name of a server's certificate were found good.
func (c *Client) verify(state tls.ConnectionState) error {
	leaf := state.PeerCertificates[0]
	if c.organization == "" || slices.Contains(leaf.Subject.Organization, c.organization) {
		return nil
	}
	return &OrganizationError{Subject: leaf.Subject.String(), Want: c.organization}
}

// Identified reports whether clients that Require the organization, and have the ServerName if
// that is not empty, call this server.
func (s *Server) Identified(organization, serverName string) bool {
	leaf := s.files.get().certificate.Leaf
	if serverName != "" {
		return leaf.VerifyHostname(serverName) == nil
	}
	return slices.Contains(leaf.Subject.Organization, organization)
}

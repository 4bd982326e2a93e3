package credential

import (
	"crypto/tls"
	"fmt"
	"slices"
)

// OrganizationError refuses a server whose certificate is valid but lacks the required
// organization.
type OrganizationError struct {
	Subject string // of the certificate
	Want    string // the required organization
}

func (e *OrganizationError) Error() string {
	return fmt.Sprintf("the certificate of %q does not have O = %q", e.Subject, e.Want)
}

// Require returns a client like this one that calls only servers whose certificate has an
// organization (O) in its subject. It is for servers whose address comes from an untrusted source.
// Such an address may be that of any machine with a certificate of the CA, so a certificate for
// that name proves nothing. If ServerName is configured, the certificate must have that name
// instead: the operator chose it, for CAs that leave the subject empty.
func (c *Client) Require(organization string) *Client {
	strict := *c
	if c.serverName == "" {
		strict.organization = organization
	}
	return &strict
}

// verify runs after the TLS library has verified the chain and the name of a server's certificate.
func (c *Client) verify(state tls.ConnectionState) error {
	leaf := state.PeerCertificates[0]
	if c.organization == "" || slices.Contains(leaf.Subject.Organization, c.organization) {
		return nil
	}
	return &OrganizationError{Subject: leaf.Subject.String(), Want: c.organization}
}

// Identified reports whether this server passes the checks of a client that Requires the
// organization, or that has ServerName set if serverName is not empty.
func (s *Server) Identified(organization, serverName string) bool {
	leaf := s.files.get().certificate.Leaf
	if serverName != "" {
		return leaf.VerifyHostname(serverName) == nil
	}
	return slices.Contains(leaf.Subject.Organization, organization)
}

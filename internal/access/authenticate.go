package access

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/bursar/bursar/internal/identity"
)

// Certificates verifies client certificates against the current files. *credential.Server
// implements it.
type Certificates interface {
	// Verify returns the client certificate of a connection, or nil if the client presented none.
	Verify(state *tls.ConnectionState) (*x509.Certificate, error)
}

// Authenticator finds the identity of a caller from its token or its client certificate.
type Authenticator struct {
	// Identities returns the identities with tokens. Nil: the server accepts no tokens.
	Identities func() *Identities
	// Certificates verifies client certificates. Nil: the server accepts none.
	Certificates Certificates
	// Now returns the current time.
	Now func() time.Time
}

// Set reports whether the authenticator has a source of identities.
func (a *Authenticator) Set() bool { return a.Identities != nil || a.Certificates != nil }

// UnknownError refuses a caller that the server cannot authenticate.
type UnknownError struct {
	// Wrong describes the fault in the credentials, Want a correct value.
	Wrong, Want string
	Err         error // nil if there is none
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("%s: want %s", e.Wrong, e.Want)
}

// Unwrap returns the cause.
func (e *UnknownError) Unwrap() error { return e.Err }

// Authenticate returns the identity of the caller that sent these headers over this connection: the
// owner of the token, or of the certificate if there is no token. The error is an *UnknownError.
func (a *Authenticator) Authenticate(header http.Header, state *tls.ConnectionState) (identity.Actor, error) {
	if authorization := header.Values("Authorization"); len(authorization) > 0 {
		return a.byToken(authorization)
	}
	if a.Certificates == nil {
		return identity.Actor{}, a.nothing()
	}
	leaf, err := a.Certificates.Verify(state)
	switch {
	case err != nil:
		wrong, want, _ := strings.Cut(err.Error(), ": want ")
		return identity.Actor{}, &UnknownError{Wrong: wrong, Want: want, Err: err}
	case leaf == nil:
		return identity.Actor{}, a.nothing()
	}
	return ofSubject(leaf)
}

// nothing refuses a caller without credentials.
func (a *Authenticator) nothing() error {
	want := "a token (header Authorization: Bearer TOKEN; BURSAR_TOKEN or --token-file of the command line)"
	switch {
	case a.Identities == nil:
		want = "a client certificate"
	case a.Certificates != nil:
		want += " or a client certificate"
	}
	return &UnknownError{Wrong: "the caller is not known: the call carries no credentials", Want: want}
}

func (a *Authenticator) byToken(authorization []string) (identity.Actor, error) {
	scheme, token, _ := strings.Cut(authorization[0], " ")
	if len(authorization) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return identity.Actor{}, &UnknownError{Wrong: "header Authorization", Want: "one, with Bearer and a token"}
	}
	if a.Identities == nil {
		return identity.Actor{}, &UnknownError{Wrong: "the token is not known: this coordinator has no file of identities", Want: "a client certificate, or identities in its configuration"}
	}
	entry, found := a.Identities().byToken(strings.TrimSpace(token))
	switch {
	case !found:
		return identity.Actor{}, &UnknownError{
			Wrong: "the token is not known: never made, or revoked",
			Want:  "one of an identity in the coordinator's file; bursar token create makes one",
		}
	case !entry.NotAfter.IsZero() && !a.Now().Before(entry.NotAfter):
		return identity.Actor{}, &UnknownError{
			Wrong: fmt.Sprintf("the identity %s ended at %s", entry.Actor.Name, entry.NotAfter.UTC().Format(time.RFC3339)),
			Want:  "a later notAfter in the coordinator's file of identities, or a token of another one",
		}
	}
	return entry.Actor, nil
}

// ofSubject returns the identity in the subject of a certificate.
func ofSubject(leaf *x509.Certificate) (identity.Actor, error) {
	wrong := fmt.Sprintf("client certificate of %q", leaf.Subject.String())
	var said []string
	for _, o := range leaf.Subject.Organization {
		if role, ours := identity.RoleOf(o); ours {
			said = append(said, role)
		}
	}
	if len(said) != 1 {
		return identity.Actor{}, &UnknownError{Wrong: wrong, Want: `one with the role in its subject, such as O = "bursar:reader", or a token next to it`}
	}
	role, err := identity.ParseRole(said[0])
	if err != nil {
		return identity.Actor{}, &UnknownError{Wrong: wrong + ": " + err.Error(), Want: `O = "bursar:" and such a role`, Err: err}
	}
	name := leaf.Subject.CommonName
	if role == identity.Agent {
		if !identity.IsHostID(name) {
			return identity.Actor{}, &UnknownError{Wrong: wrong, Want: "the id of the agent's host as CN"}
		}
		actor := actorOf(role, "agent:"+name)
		actor.Host = name
		return actor, nil
	}
	if !namePattern.MatchString(name) || name == "local" || name == "remote" {
		return identity.Actor{}, &UnknownError{Wrong: wrong, Want: "a name as CN: " + wantName}
	}
	actor := actorOf(role, name)
	if role == identity.Submitter {
		actor.Users = []string{name}
	}
	return actor, nil
}

package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/forward"
	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/regularfile"
	"github.com/bursar/bursar/internal/yamlfile"
)

// identitiesPoll is how often the file of identities is checked. A revoked token is good for as
// long.
const identitiesPoll = 2 * time.Second

// Peers is how coordinators authenticate to each other.
type Peers struct {
	// TLS is for others whose URL begins with https: their CA, and the certificate to show them,
	// with O = "bursar:coordinator".
	TLS credential.ClientTLS `yaml:"tls"`
	// TokenFile holds the bearer token for other coordinators, of an identity with the role
	// coordinator, instead of a certificate. It must not be readable for everybody. Default: none.
	TokenFile string `yaml:"tokenFile"`
}

// trust holds the means to authenticate callers, and the coordinator's own credentials for other
// coordinators.
type trust struct {
	config     *Config
	tls        *credential.Server // nil: plain HTTP
	identities *access.File       // nil: none
	who        access.Authenticator
	peer       *credential.Client
	token      *credential.TokenSource
}

// openTrust reads the files. The error is a *ConfigError, or a *yamlfile.Error of the identities.
func openTrust(config *Config, log *slog.Logger) (*trust, error) {
	t := &trust{config: config, who: access.Authenticator{Now: time.Now}}
	var err error
	if config.TLS.IsSet() {
		if t.tls, err = config.TLS.Open(credential.Options{Log: log}); err != nil {
			return nil, configError(err)
		}
		if config.TLS.ClientCA != "" {
			t.who.Certificates = t.tls
		}
	}
	if config.Identities != "" {
		t.identities, err = access.Open(config.Identities, log)
		if _, located := errors.AsType[*yamlfile.Error](err); err != nil && !located {
			made := &ConfigError{"identities", config.Identities, "a file of identities (" + err.Error() + "); bursar token create makes one"}
			err = transient(made, err)
		}
		if err != nil {
			return nil, err
		}
		t.who.Identities = t.identities.Identities
	}
	if t.peer, err = config.Peers.TLS.Open(credential.Options{Field: "peers.tls", Log: log}); err != nil {
		return nil, configError(err)
	}
	if config.Peers.TokenFile != "" {
		options := credential.Options{Field: "peers.tokenFile", Log: log}
		if t.token, err = (credential.Token{File: config.Peers.TokenFile}).Open(options); err != nil {
			return nil, configError(err)
		}
	}
	return t, nil
}

// boundsOf returns the bounds of a host by the identity of its agent; nil: none.
func (t *trust) boundsOf(host string) *access.Bounds {
	if t.identities == nil {
		return nil
	}
	return t.identities.Identities().BoundsOf(host)
}

// configError converts an error of a file to an error of the configuration field that names the
// file.
func configError(err error) error {
	if wrong, ok := errors.AsType[*credential.FileError](err); ok {
		made := &ConfigError{wrong.Field, wrong.File, wrong.Want + " (this one: " + wrong.Wrong + ")"}
		if wrong.Transient() {
			return &TransientConfigError{made}
		}
		return made
	}
	return err
}

// transient returns a *TransientConfigError if time may mend the cause, otherwise made.
func transient(made *ConfigError, cause error) error {
	if regularfile.Transient(cause) {
		return &TransientConfigError{made}
	}
	return made
}

// TransientConfigError is a ConfigError that time may mend: a missing file, a full disk, or a
// certificate that is not valid yet.
type TransientConfigError struct{ *ConfigError }

// Unwrap returns the ConfigError.
func (e *TransientConfigError) Unwrap() error { return e.ConfigError }

// peersOptions returns the options with which a coordinator authenticates to the others.
func (t *trust) peersOptions(log *slog.Logger, interceptors []connect.Interceptor) forward.PeersOptions {
	o := forward.PeersOptions{Log: log, Interceptors: interceptors, Credential: t.peer, Shows: t.hasOwn(), NotLeading: core.ErrNotLeading}
	if t.token != nil {
		o.Token = func() (string, error) { return t.token.Token(), nil }
	}
	return o
}

// hasOwn reports whether this coordinator has credentials for the others.
func (t *trust) hasOwn() bool { return t.token != nil || t.config.Peers.TLS.Cert != "" }

// checkPeers refuses a coordinator at a URL that could not pass calls on to the others, or they to
// it.
func (t *trust) checkPeers(url string) error {
	switch {
	case t.who.Set() && !t.hasOwn():
		return &ConfigError{
			"peers.tokenFile", "",
			`a file with a token of an identity with the role coordinator, or peers.tls with a certificate with O = "bursar:coordinator": coordinators pass calls on to each other`,
		}
	case t.hasOwn() && inClear(url):
		return &ConfigError{
			"tls.cert", "", "tls.cert and tls.key on every coordinator: they show each other " + t.ownField() +
				", and who else may write into Consul could have it sent to themselves in clear text; or a single coordinator (election: alone); or, where " +
				"everybody on the network may do everything as anybody, neither identities nor peers",
		}
	}
	if t.tls != nil && !t.isCoordinator() {
		return &ConfigError{"tls.cert", t.config.TLS.Cert, wantCoordinator}
	}
	return nil
}

// ownField returns the configuration field of the credentials for the others.
func (t *trust) ownField() string {
	if t.token != nil {
		return "peers.tokenFile"
	}
	return "peers.tls"
}

// isCoordinator reports whether coordinators like this one accept its certificate as a
// coordinator's.
func (t *trust) isCoordinator() bool {
	return t.tls.Identified(identity.Coordinator.Organization(), t.config.Peers.TLS.ServerName)
}

const wantCoordinator = `a certificate with O = "bursar:coordinator" in its subject, or with a name that coordinators alone have and peers.tls.serverName (and tls.serverName of ` +
	"agents and clients) says: any host's would do else, if its owner may write into Consul"

// inClear reports whether calls to a coordinator's URL cross a network unencrypted, judged by the
// URL's host name.
func inClear(url string) bool {
	rest, plain := strings.CutPrefix(url, "http://")
	if host, _, err := net.SplitHostPort(rest); err == nil {
		rest = host
	}
	return plain && !discovery.Loopback(rest)
}

// warnings returns present and coming faults of certificates, identities and credentials.
func (t *trust) warnings() []string {
	list := t.insecureWarnings()
	if t.tls != nil {
		list = append(list, t.tls.Warnings()...)
	}
	if t.identities != nil {
		list = append(list, t.identities.Warnings()...)
	}
	return append(list, t.peer.Warnings()...)
}

// insecureWarnings returns the effects of Insecure; nothing if it has no effect.
func (t *trust) insecureWarnings() []string {
	if !t.config.Insecure || loopback(t.config.Listen) {
		return nil
	}
	var list []string
	if !t.who.Set() {
		list = append(list, "insecure: anyone who can connect to "+t.config.Listen+" may do everything, as anybody: want identities, or tls.clientCA")
	}
	if t.tls == nil {
		list = append(list, "insecure: what crosses the network can be read and changed on its way: want tls.cert and tls.key")
	}
	return list
}

// loopback reports whether only this machine can reach an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && ip.IsLoopback())
}

// checkTrust refuses to serve a network without authentication, unless Insecure is set.
func (c Config) checkTrust() error {
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return &ConfigError{"listen", c.Listen, "HOST:PORT, such as 127.0.0.1:7070"}
	}
	if _, err := net.LookupPort("tcp", port); err != nil { //nolint:noctx // names of ports are in a file
		return &ConfigError{"listen", c.Listen, "a port from 0 to 65535, such as 127.0.0.1:7070"}
	}
	if c.TLS.ClientCA != "" && c.TLS.Cert == "" {
		return &ConfigError{"tls.cert", "", "the server's certificate, as tls.clientCA is of no use without TLS"}
	}
	if c.Insecure || loopback(c.Listen) {
		return nil
	}
	const otherwise = "; or a loopback address such as 127.0.0.1:7070; or insecure: true to serve everybody who can connect, as anybody, in clear text"
	var missing []string
	if c.TLS.Cert == "" {
		missing = append(missing, "tls.cert and tls.key")
	}
	if c.Identities == "" && c.TLS.ClientCA == "" {
		missing = append(missing, "identities or tls.clientCA")
	}
	switch len(missing) {
	case 0:
		return nil
	case 1:
		return &ConfigError{"listen", c.Listen, missing[0] + " for what others than this machine can reach" + otherwise}
	default:
		return &ConfigError{"listen", c.Listen, missing[0] + ", and " + missing[1] + ", for what others than this machine can reach" + otherwise}
	}
}

// traces reports whether a call joins its caller's trace. Calls of agents, of other coordinators
// and of actors who may do everything do; without identities all calls do.
func (t *trust) traces(ctx context.Context) bool {
	if !t.who.Set() {
		return true
	}
	switch auth.CallerOf(ctx).Maker.Effective() {
	case identity.Agent, identity.Coordinator, identity.Admin:
		return true
	default:
		return false
	}
}

package client

import (
	"github.com/bursar/bursar/internal/clusterid"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/identity"
)

type (
	// Finder tells a Client the addresses of several coordinators. Static makes one from a list,
	// and the package client/consul one that asks Consul.
	Finder = discovery.Finder
	// Coordinator is a coordinator that a Finder knows.
	Coordinator = discovery.Coordinator
	// Actor is the user on whose behalf a call is made, by a caller that may act for others.
	Actor = identity.Actor
	// TLS names the files with the trusted authorities and the client's certificate; its method
	// Open makes Credentials.
	TLS = credential.ClientTLS
	// CredentialOptions are options of TLS.Open.
	CredentialOptions = credential.Options
	// Credentials are the trusted authorities and the client's certificate, read again when the
	// files change.
	Credentials = credential.Client
	// Pin is the cluster that a process belongs to; NewPin makes one.
	Pin = clusterid.Pin
	// ClusterError refuses a coordinator of another cluster.
	ClusterError = clusterid.Error
	// TrustError is in a call's error if one end does not trust the other. It includes advice.
	TrustError = credential.TrustError
)

// NewPin returns a pin to the cluster with this name.
func NewPin(cluster string) *Pin { return clusterid.NewPin(cluster) }

// Static returns a Finder of the coordinators with these URLs, such as
// https://bursar-1.example.com:7070, in this order. The error names the URL that is invalid.
func Static(urls []string) (Finder, error) {
	return discovery.Static(urls) //nolint:wrapcheck // says it all
}

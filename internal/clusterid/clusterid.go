// Package clusterid tells clusters apart that can reach each other, such as two that share one
// Consul. An Identity names a cluster and its store, and a Pin is the one that a process holds to.
// Coordinators and their callers exchange identities in headers of every call. It proves nothing:
// certificates and tokens do. It protects from mistakes.
//
// Many goroutines may use everything here.
package clusterid

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// Headers of a call and of its answer. Each may be absent, as from an older version.
const (
	// ClusterHeader and StoreHeader are the sender's identity. A caller without a pin sends none.
	ClusterHeader = "Bursar-Cluster"
	StoreHeader   = "Bursar-Store"
	// ReplacesHeader is in an answer to a caller whose store was replaced by this coordinator's:
	// the id of the caller's store.
	ReplacesHeader = "Bursar-Store-Replaces"
)

// Identity names a cluster. An empty field is not known.
type Identity struct {
	Cluster string // the name, as coordinators have it in their configuration
	Store   string // the id of the store, which is random
}

var (
	clusterName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	// storeID is the form of the id that a store gives itself, see rand.Text.
	storeID = regexp.MustCompile(`^[a-z2-7]{26}$`)
)

// IsStoreID reports whether a text can be the id of a store.
func IsStoreID(text string) bool { return storeID.MatchString(text) }

// IsCluster reports whether a text can be the name of a cluster.
func IsCluster(text string) bool { return clusterName.MatchString(text) }

// New returns the identity with these parts. Others may have written them: an invalid part is not
// known.
func New(cluster, store string) Identity {
	i := Identity{cluster, store}
	if !IsCluster(cluster) {
		i.Cluster = ""
	}
	if !IsStoreID(store) {
		i.Store = ""
	}
	return i
}

// Of returns the identity in the headers of a call or an answer.
func Of(header http.Header) Identity {
	return New(header.Get(ClusterHeader), header.Get(StoreHeader))
}

// In reports whether headers hold exactly this identity, with its store. It is quicker than Of, for
// the usual case.
func (i Identity) In(header http.Header) bool {
	return i.Store != "" && header.Get(StoreHeader) == i.Store && header.Get(ClusterHeader) == i.Cluster
}

// Put writes the identity into headers.
func (i Identity) Put(header http.Header) {
	if i.Cluster != "" {
		header.Set(ClusterHeader, i.Cluster)
	}
	if i.Store != "" {
		header.Set(StoreHeader, i.Store)
	}
}

// Known reports whether anything is known.
func (i Identity) Known() bool { return i != Identity{} }

// Other reports whether two identities are of different clusters, as far as is known. The id of a
// store is enough to tell: it is unique, and a name is not.
func (i Identity) Other(than Identity) bool {
	if i.Store != "" && than.Store != "" {
		return i.Store != than.Store
	}
	return i.Cluster != "" && than.Cluster != "" && i.Cluster != than.Cluster
}

// String is the identity in words.
func (i Identity) String() string {
	var parts []string
	if i.Cluster != "" {
		parts = append(parts, "cluster "+i.Cluster)
	}
	if i.Store != "" {
		parts = append(parts, "store "+i.Store)
	}
	if parts == nil {
		return "no known cluster"
	}
	return strings.Join(parts, " with ")
}

// Error refuses a coordinator of another cluster.
type Error struct {
	URL       string // the coordinator's
	Got, Want Identity
}

func (e *Error) Error() string {
	return fmt.Sprintf("coordinator %s belongs to %s, and this end to %s: nothing is sent there; want addresses of coordinators of one cluster, "+
		"a consul.service of its own for each cluster in one Consul, or, if the store was replaced, replacesStores in the coordinators' configuration",
		e.URL, e.Got, e.Want)
}

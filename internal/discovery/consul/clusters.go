package consul

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/internal/clusterid"
)

// identityOf returns the cluster in a registration. Registrations of earlier versions, and those
// that an operator has written, have none.
func identityOf(entry *api.ServiceEntry) clusterid.Identity {
	if entry == nil || entry.Service == nil {
		return clusterid.Identity{}
	}
	return clusterid.New(entry.Service.Meta[metaCluster], entry.Service.Meta[metaStore])
}

// replaces reports whether a registration's store has replaced another store.
func replaces(entry *api.ServiceEntry, store string) bool {
	return store != "" && slices.Contains(strings.Split(entry.Service.Meta[metaReplaces], ","), store)
}

// SharedError reports that coordinators of several clusters have the same service name, and that
// nothing tells which cluster is meant.
type SharedError struct {
	Service  string
	Clusters []clusterid.Identity
}

func (e *SharedError) Error() string {
	names := make([]string, len(e.Clusters))
	for i, identity := range e.Clusters {
		names[i] = identity.String()
	}
	return fmt.Sprintf("coordinators of several clusters are registered as service %s in Consul (%s): "+
		"want the name of one of them (cluster), or a service of its own for each cluster (consul.service)", e.Service, strings.Join(names, "; "))
}

// ownEntries returns the entries of this finder's cluster. The others yield errors.
func (f *Finder) ownEntries(entries []*api.ServiceEntry) (own []*api.ServiceEntry, errs []error) {
	held := f.pin.Held()
	var clusters []clusterid.Identity
	for _, entry := range entries {
		is := identityOf(entry)
		if is.Other(held) && replaces(entry, held.Store) && (!f.ownPin || f.pin.Replace(is, held.Store)) {
			own = append(own, entry)
			continue
		}
		if !is.Known() {
			own = append(own, entry)
			continue
		}
		if err := f.pin.Check(entry.Service.ID, is); err != nil {
			errs = append(errs, err)
			continue
		}
		own = append(own, entry)
		if !slices.ContainsFunc(clusters, func(c clusterid.Identity) bool { return !is.Other(c) }) {
			clusters = append(clusters, is)
		}
	}
	if len(clusters) > 1 {
		for _, one := range clusters {
			if !f.ownPin {
				f.pin.See(one)
			}
		}
		return nil, append(errs, &SharedError{Service: f.client.config.Service, Clusters: clusters})
	}
	if f.ownPin && len(clusters) == 1 {
		f.pin.Hold(clusters[0])
	}
	return own, errs
}

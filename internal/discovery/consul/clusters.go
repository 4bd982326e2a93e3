package consul

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/internal/clusterid"
)

// identityOf is the cluster that a registration says it belongs to. Those of earlier versions, and
// those that an operator has written, say none.
func identityOf(entry *api.ServiceEntry) clusterid.Identity {
	if entry == nil || entry.Service == nil {
		return clusterid.Identity{}
	}
	return clusterid.New(entry.Service.Meta[metaCluster], entry.Service.Meta[metaStore])
}

// replaces reports whether a registration says that its store has taken the place of another one.
func replaces(entry *api.ServiceEntry, store string) bool {
	return store != "" && slices.Contains(strings.Split(entry.Service.Meta[metaReplaces], ","), store)
}

// SharedError says that coordinators of several clusters are registered by one name, and that
// nothing tells which of them is meant.
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

// ownEntries returns the entries of the cluster that this finder is for. The others are errors.
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

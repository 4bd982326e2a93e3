package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// ClusterName names an external cluster: which kind of system it is, and which one of these.
type ClusterName struct{ Kind, Cluster string }

// String returns "KIND:CLUSTER", such as "yarn:prod".
func (n ClusterName) String() string { return n.Kind + ":" + n.Cluster }

// Compare orders by kind, then by cluster.
func (n ClusterName) Compare(m ClusterName) int {
	return cmp.Or(strings.Compare(n.Kind, m.Kind), strings.Compare(n.Cluster, m.Cluster))
}

// ProviderRecord says that a cluster is read, and how. Config.Terms has the settings for requests;
// the ledger itself does not use the others.
type ProviderRecord struct {
	ClusterName
	// Default makes it the cluster of requests that name none. At most one of a kind may have it.
	// The only cluster of its kind is the default without it.
	Default  bool
	Settings map[string]string
	// Source is where it was configured, as in a Quota.
	Source string
}

// FromFile reports whether it was configured in a file that the server watches.
func (p *ProviderRecord) FromFile() bool { return !stored(p.Source) }

func (p ProviderRecord) equal(q ProviderRecord) bool {
	return p.ClusterName == q.ClusterName && p.Default == q.Default && p.Source == q.Source && maps.Equal(p.Settings, q.Settings)
}

// PutProvider adds a provider of source "api", or replaces the one of that cluster. If its
// settings have changed it may be another cluster: nothing is known of it until it is read.
//
// Errors: *StateError (the present one comes from a file), *FieldError: "provider.kind",
// "provider.cluster" (empty) and "provider.default" (its kind has another default).
func (l *Ledger) PutProvider(now Instant, p ProviderRecord) error {
	l.begin(now)
	p.Source = SourceAPI
	if before := l.provider(p.ClusterName); before != nil && !stored(before.Source) {
		return notOurs(before)
	}
	return l.setProviders(append(l.providersWithout(func(other *ProviderRecord) bool { return other.ClusterName == p.ClusterName }), p))
}

// DeleteProvider ends the reading of a cluster. Allocations that have a part in it stay as they
// are, and no new ones are granted. Those on lost hosts become lost if only the cluster could tell
// when they have ended.
//
// Errors: *NotFoundError, *StateError (it comes from a file).
func (l *Ledger) DeleteProvider(now Instant, name ClusterName) error {
	l.begin(now)
	before := l.provider(name)
	if before == nil {
		return &NotFoundError{What: "provider", ID: name.String()}
	}
	if !stored(before.Source) {
		return notOurs(before)
	}
	return l.setProviders(l.providersWithout(func(other *ProviderRecord) bool { return other.ClusterName == name }))
}

// SetProviders replaces all providers of a source, all or nothing.
//
// Errors: *FieldError: "provider.kind", "provider.cluster" (empty, or configured twice),
// "provider.default" (two defaults of a kind).
func (l *Ledger) SetProviders(now Instant, source string, list []ProviderRecord) error {
	l.begin(now)
	next := l.providersWithout(func(other *ProviderRecord) bool { return other.Source == source })
	for _, p := range list {
		p.Source = source
		next = append(next, p)
	}
	return l.setProviders(next)
}

// ReplaceProviders replaces the providers that are in force, of all sources, all or nothing. The
// store keeps its rows: providers that came over the API and are not in the list, or not in the
// same form, are hidden by others. Errors: as of SetProviders.
func (l *Ledger) ReplaceProviders(now Instant, list []ProviderRecord) error {
	l.begin(now)
	return l.useProviders(list, func(ProviderRecord, bool) {})
}

// Providers returns all providers, by kind and cluster.
func (l *Ledger) Providers() []ProviderRecord { return slices.Clone(l.providers) }

func notOurs(p *ProviderRecord) error {
	return &StateError{"provider", p.String(), "from " + p.Source, "one that was set over the API; change it where it comes from"}
}

// provider returns the record of a cluster; nil if it has none.
func (l *Ledger) provider(name ClusterName) *ProviderRecord {
	return providerOf(l.providers, name)
}

// providerOf finds a record in a list that is sorted by cluster.
func providerOf(list []ProviderRecord, name ClusterName) *ProviderRecord {
	i, found := slices.BinarySearchFunc(list, name, func(p ProviderRecord, name ClusterName) int { return p.Compare(name) })
	if !found {
		return nil
	}
	return &list[i]
}

func (l *Ledger) providersWithout(drop func(*ProviderRecord) bool) []ProviderRecord {
	kept := make([]ProviderRecord, 0, len(l.providers)+1)
	for i := range l.providers {
		if !drop(&l.providers[i]) {
			kept = append(kept, l.providers[i])
		}
	}
	return kept
}

// checkProviders checks all providers together, which are sorted by cluster. An error comes with
// the name of the provider that is wrong or is a duplicate.
func checkProviders(list []ProviderRecord) (wrong ClusterName, err error) {
	standard := make(map[string]ClusterName)
	for i, p := range list {
		switch {
		case p.Kind == "" || strings.Contains(p.Kind, ":") || !utf8.ValidString(p.Kind):
			return p.ClusterName, &FieldError{"provider.kind", validText(p.String()), `a kind of system, such as "yarn"`}
		case p.Cluster == "" || !utf8.ValidString(p.Cluster):
			return p.ClusterName, &FieldError{"provider.cluster", validText(p.String()), "a name for the cluster"}
		case i > 0 && list[i-1].ClusterName == p.ClusterName:
			return p.ClusterName, &FieldError{
				"provider.cluster", p.String(),
				fmt.Sprintf("one provider for this cluster; there is one from %s and one from %s", list[i-1].Source, p.Source),
			}
		}
		for key, value := range p.Settings {
			if err := cmp.Or(checkName("provider.settings", key), checkName("provider.settings["+validText(key)+"]", value)); err != nil {
				return p.ClusterName, err
			}
		}
		if !p.Default {
			continue
		}
		if other, taken := standard[p.Kind]; taken {
			return p.ClusterName, &FieldError{"provider.default", p.String(), "one default of a kind; there is " + other.String()}
		}
		standard[p.Kind] = p.ClusterName
	}
	return ClusterName{}, nil
}

// setProviders puts other providers in force.
func (l *Ledger) setProviders(list []ProviderRecord) error {
	return l.useProviders(list, l.recordProvider)
}

func (l *Ledger) useProviders(list []ProviderRecord, record func(p ProviderRecord, put bool)) error {
	list = slices.SortedStableFunc(slices.Values(list), func(a, b ProviderRecord) int { return a.Compare(b.ClusterName) })
	if _, err := checkProviders(list); err != nil {
		return err
	}
	for i := range list { // so that the ledger shares them with nobody
		list[i].Settings = maps.Clone(list[i].Settings)
	}
	before := l.providers
	l.providers = list
	for i := range before {
		if l.provider(before[i].ClusterName) == nil {
			record(before[i], false)
			l.unconfigure(before[i].ClusterName)
		}
	}
	for i := range list {
		old := providerOf(before, list[i].ClusterName)
		if old == nil || !old.equal(list[i]) {
			record(list[i], true)
		}
		if old == nil || !maps.Equal(old.Settings, list[i].Settings) {
			l.configure(list[i])
		}
	}
	l.loseUnseen()
	l.grantWaiting()
	return nil
}

// recordProvider adds the change of a stored provider to the changes. A provider that a batch
// removes and puts again counts as put.
func (l *Ledger) recordProvider(p ProviderRecord, put bool) {
	if !stored(p.Source) {
		return
	}
	l.revision++
	c := &l.changes
	c.Providers = slices.DeleteFunc(c.Providers, func(q ProviderRecord) bool { return q.ClusterName == p.ClusterName })
	c.ProvidersRemoved = slices.DeleteFunc(c.ProvidersRemoved, func(name ClusterName) bool { return name == p.ClusterName })
	if put {
		c.Providers = append(c.Providers, p)
	} else {
		c.ProvidersRemoved = append(c.ProvidersRemoved, p.ClusterName)
	}
}

package core

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bursar/bursar/coordinator/ledger"
)

// ReplaceProviders applies the providers of a file during a leadership, as Lead does at its
// beginning.
func (c *Core) ReplaceProviders(now ledger.Instant, file []ledger.ProviderRecord) error {
	before := make(map[ledger.ClusterName]ledger.ProviderRecord)
	var stored []ledger.ProviderRecord
	for _, record := range c.ledger.Providers() {
		before[record.ClusterName] = record
		if record.Source == ledger.SourceAPI {
			stored = append(stored, record)
		}
	}
	for _, shadowed := range c.shadowed {
		i := slices.IndexFunc(stored, func(r ledger.ProviderRecord) bool { return r.ClusterName == shadowed.ClusterName })
		switch {
		case i < 0 && before[shadowed.ClusterName].Source != "":
			stored = append(stored, shadowed)
		case i >= 0 && maps.Equal(stored[i].Settings, shadowed.Settings):
			// the file had hidden only that it is the default
			stored[i] = shadowed
		}
	}
	all, hidden := WithFile(stored, file)
	if err := c.ledger.ReplaceProviders(now, all); err != nil {
		return err
	}
	c.providers, c.hidden, c.shadowed = file, hidden, hiddenOf(stored, all)
	for _, record := range c.ledger.Providers() {
		if was, known := before[record.ClusterName]; !known || !maps.Equal(was.Settings, record.Settings) {
			c.providerGenerations[record.ClusterName]++
		}
		delete(before, record.ClusterName)
	}
	for name := range before {
		c.providerGenerations[name]++
	}
	return nil
}

// hiddenOf returns the stored providers that are not in force unchanged.
func hiddenOf(stored, all []ledger.ProviderRecord) (list []ledger.ProviderRecord) {
	for _, record := range stored {
		inForce := func(r ledger.ProviderRecord) bool {
			return r.ClusterName == record.ClusterName && r.Source == record.Source && r.Default == record.Default
		}
		if !slices.ContainsFunc(all, inForce) {
			list = append(list, record)
		}
	}
	return list
}

// WithFile merges the providers of the file with the stored ones, and describes the stored ones
// that the file hides. If both have a cluster, or a default of a kind, the file's is in force.
// Hidden providers stay stored, and are in force again once the file does not have them: another
// coordinator with another file may have stored them. To refuse to lead because of that would leave
// the cluster without a leader.
func WithFile(stored, file []ledger.ProviderRecord) (all []ledger.ProviderRecord, hidden []string) {
	all = slices.Clone(file)
	for _, record := range stored {
		if record.FromFile() {
			record.Source = ledger.SourceAPI // write access to rows gives only the rights of an admin
		}
		of := func(match func(ledger.ProviderRecord) bool) int { return slices.IndexFunc(file, match) }
		if i := of(func(f ledger.ProviderRecord) bool { return f.ClusterName == record.ClusterName }); i >= 0 {
			hidden = append(hidden, fmt.Sprintf("provider %s is that of %s; the one that was set over the API is not used", record, file[i].Source))
			continue
		}
		if i := of(func(f ledger.ProviderRecord) bool { return f.Kind == record.Kind && f.Default }); i >= 0 && record.Default {
			hidden = append(hidden, fmt.Sprintf("the default is %s, of %s, and not %s, which was set over the API", file[i].ClusterName, file[i].Source, record))
			record.Default = false
		}
		all = append(all, record)
	}
	return all, hidden
}

// HiddenRules returns the rules that are not in force, and how often the rules were replaced.
func (c *Core) HiddenRules() (generation uint64, hidden []ledger.HiddenQuota) {
	if c.ledger == nil || c.fault != nil {
		return 0, nil
	}
	// a panic is in Fault
	_ = c.withRecover(c.ledger, nil, func() { generation, hidden = c.ledger.RulesGeneration(), c.ledger.HiddenQuotas() })
	return generation, hidden
}

// UndeclaredDimensions returns the undeclared dimensions of rules in force, unless the generation
// is the seen one. The generation changes if the list may have changed.
func (c *Core) UndeclaredDimensions(seen uint64) (generation uint64, list []ledger.UndeclaredDimension) {
	if c.ledger == nil || c.fault != nil {
		return 0, nil
	}
	// a panic is in Fault
	_ = c.withRecover(c.ledger, nil, func() {
		if generation = c.ledger.DimensionsGeneration(); generation != seen {
			list = c.ledger.UndeclaredDimensions()
		}
	})
	return generation, list
}

// Assignment is a cluster to read, with the leadership and the number of changes of its provider at
// that time.
type Assignment struct {
	ledger.ProviderRecord

	epoch, generation uint64
}

// Same reports whether two assignments are the same.
func (a *Assignment) Same(b *Assignment) bool {
	return a.ClusterName == b.ClusterName && a.epoch == b.epoch && a.generation == b.generation
}

// Assignments returns the clusters to read now.
func (c *Core) Assignments() (list []Assignment) {
	for _, record := range c.ledger.Providers() {
		list = append(list, Assignment{record, c.meta.Epoch, c.providerGenerations[record.ClusterName]})
	}
	return list
}

// IsCurrent reports whether a reading for an assignment is still valid.
func (c *Core) IsCurrent(a *Assignment) bool {
	return c.meta.Epoch == a.epoch && c.providerGenerations[a.ClusterName] == a.generation
}

// ChangeProvider puts or deletes a provider. Earlier readings for it are then no longer valid.
func (c *Core) ChangeProvider(now ledger.Instant, name ledger.ClusterName, change func(*ledger.Ledger, ledger.Instant) error) error {
	err := change(c.ledger, now)
	if err == nil {
		c.providerGenerations[name]++
	}
	return err
}

// HiddenProviders describes the stored providers that the file hides.
func (c *Core) HiddenProviders() []string { return c.hidden }

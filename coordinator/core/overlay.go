package core

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bursar/bursar/coordinator/ledger"
)

// ReplaceProviders does for a leadership that goes on what Lead does for one that begins.
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
		case i >= 0 && maps.Equal(stored[i].Settings, shadowed.Settings): // of which the file has only hidden that it is the default
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
			c.providerTurns[record.ClusterName]++
		}
		delete(before, record.ClusterName)
	}
	for name := range before {
		c.providerTurns[name]++
	}
	return nil
}

// hiddenOf are the stored providers that are not in force as they are.
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

// WithFile puts the providers of the file next to those that are stored, and says what it hides of these: a cluster that the file has is the
// file's, and so is the default of a kind where the file has one. What is hidden stays stored, and is there again once the file does not
// have it: another coordinator, whose file does not, may have taken it in. To refuse to lead for it would leave everybody without a leader.
func WithFile(stored, file []ledger.ProviderRecord) (all []ledger.ProviderRecord, hidden []string) {
	all = slices.Clone(file)
	for _, record := range stored {
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

// HiddenRules are the rules that are not in force, and how often the rules were replaced.
func (c *Core) HiddenRules() (turn uint64, hidden []ledger.HiddenQuota) {
	if c.ledger == nil || c.fault != nil {
		return 0, nil
	}
	_ = c.withRecover(c.ledger, nil, func() { turn, hidden = c.ledger.RulesTurn(), c.ledger.HiddenQuotas() }) // Fault tells
	return turn, hidden
}

// Assignment is a cluster that is to be read, and under what it was so: in which leadership, and after how many changes of its provider.
type Assignment struct {
	ledger.ProviderRecord

	epoch, turn uint64
}

// Same reports whether an assignment has not changed.
func (a *Assignment) Same(b *Assignment) bool {
	return a.ClusterName == b.ClusterName && a.epoch == b.epoch && a.turn == b.turn
}

// Assignments are the clusters that are to be read now.
func (c *Core) Assignments() (list []Assignment) {
	for _, record := range c.ledger.Providers() {
		list = append(list, Assignment{record, c.meta.Epoch, c.providerTurns[record.ClusterName]})
	}
	return list
}

// IsCurrent reports whether what is read for an assignment still counts.
func (c *Core) IsCurrent(a *Assignment) bool {
	return c.meta.Epoch == a.epoch && c.providerTurns[a.ClusterName] == a.turn
}

// ChangeProvider puts or deletes a provider: what was read for it before counts no more.
func (c *Core) ChangeProvider(now ledger.Instant, name ledger.ClusterName, change func(*ledger.Ledger, ledger.Instant) error) error {
	err := change(c.ledger, now)
	if err == nil {
		c.providerTurns[name]++
	}
	return err
}

// HiddenProviders says what the file of providers hides of the stored ones, in words.
func (c *Core) HiddenProviders() []string { return c.hidden }

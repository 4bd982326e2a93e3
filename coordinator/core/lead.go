package core

import (
	"errors"
	"fmt"
	"maps"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// Lead begins a leadership with the state of the store. The ledger's time continues from the
// store's time, or from the clock if that is later. The rules and providers of files are those of
// SetQuotaFiles and SetProviders. After an error the core does not lead.
func (c *Core) Lead(now ledger.Instant, meta store.Meta, snapshot ledger.Snapshot) error {
	restored, err := c.Restore(now, meta, Loaded{Snapshot: snapshot})
	if err != nil {
		return err
	}
	c.LeadWith(restored)
	return nil
}

// Restored is a ledger with which a leadership can begin.
type Restored struct {
	ledger   *ledger.Ledger
	meta     store.Meta
	revision uint64
	refusals []ledger.Refusal
}

// Restore makes the ledger of a leadership, which LeadWith begins. If the loaded state is not
// proven yet, it returns its errors as ErrUnproven, and sets no request aside because of them.
func (c *Core) Restore(now ledger.Instant, meta store.Meta, loaded Loaded) (*Restored, error) {
	aside := maps.Clone(c.aside)
	restored, err := c.restore(now, meta, loaded.Snapshot)
	if err != nil && loaded.Prove != nil {
		c.aside = aside
		err = fmt.Errorf("%w: %w", ErrUnproven, err)
	}
	return restored, err
}

func (c *Core) restore(now ledger.Instant, meta store.Meta, snapshot ledger.Snapshot) (*Restored, error) {
	if c.ledger != nil {
		return nil, errors.New("coordinator: lead: leads already")
	}
	snapshot.Quotas = append(snapshot.Quotas, QuotasOfFiles(c.files)...)
	stored := snapshot.Providers
	snapshot.Providers, c.hidden = WithFile(stored, c.providers)
	c.shadowed = hiddenOf(stored, snapshot.Providers)
	snapshot.Latest = Latest(&snapshot)
	c.now = max(now, snapshot.Latest)
	c.skew, c.storedTime = Skew{Since: now, Ahead: c.now.Sub(now)}, c.now
	if f := snapshot.Filed; f != nil && !f.Suits(&snapshot) {
		f.Rows(&snapshot)
		snapshot.Filed = nil
	}
	var l *ledger.Ledger
	if snapshot.Filed != nil {
		l = snapshot.Filed.Ledger(c.newPlacer())
	} else {
		l = c.EmptyLedger()
	}
	snapshot.SetAside = c.aside
	var err error
	if fault := c.withRecover(l, nil, func() { err = l.Restore(c.now, snapshot) }); fault != nil {
		c.fault, err = nil, fault
	}
	if err != nil {
		return nil, fmt.Errorf("coordinator: lead: %w", err)
	}
	return &Restored{ledger: l, meta: meta, revision: snapshot.Revision, refusals: snapshot.Refusals}, nil
}

// LeadWith begins a leadership with the ledger of the latest Restore.
func (c *Core) LeadWith(r *Restored) {
	c.refused.restore(r.refusals, r.ledger.Outages(), c.now)
	c.ledger, c.meta, c.batchedRevision, c.superseded = r.ledger, r.meta, r.revision, 0
	c.leadership = c.draw()
	c.informed, c.providerGenerations = make(map[string]bool), make(map[ledger.ClusterName]uint64)
	c.returns = returns{slots: make(map[string]ledger.Instant)}
	c.setback = setback{Setback: Setback{Revision: r.revision}, hosts: make(map[string]bool)}
}

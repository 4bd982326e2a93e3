package commit

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
)

// restoring is a loaded ledger, from its restore until it is proven.
type restoring struct {
	outcome
	ledger *core.Restored
	live   int           // number of loaded live allocations
	took   time.Duration // time of the restore
	// rules and providers are those of the files at the time of the restore.
	rules     map[string][]ledger.Quota
	providers *[]ledger.ProviderRecord
}

// restore makes the initial ledger of a leadership from the loaded state.
func (loop *Loop) restore(o outcome) *restoring {
	r := &restoring{outcome: o, providers: loop.configured.Load()}
	if r.err != nil || r.job.term != loop.term {
		return r
	}
	if loop.Rules != nil {
		r.rules = loop.Rules()
		// the core does not lead yet, so no state refuses them
		if r.err = loop.core.SetQuotaFiles(0, r.rules); r.err != nil {
			return r
		}
	}
	if r.providers != nil {
		loop.core.SetProviders(*r.providers)
	}
	r.live = r.loaded.Live() // Restore uses the loaded state up
	began := loop.Clock.Now()
	r.ledger, r.err = loop.core.Restore(began, r.meta, r.loaded)
	r.took = loop.Clock.Now().Sub(began)
	return r
}

// errFilesChanged says that the rules or providers of files have changed since the restore.
var errFilesChanged = fmt.Errorf("%w: rules or providers of files have changed meanwhile", core.ErrUnproven)

// startLeading makes the core lead with the restored ledger.
func (loop *Loop) startLeading(r *restoring) error {
	err := r.err
	if err == nil && (loop.Rules != nil && !reflect.DeepEqual(loop.Rules(), r.rules) || loop.configured.Load() != r.providers) {
		err = errFilesChanged
	}
	switch {
	case errors.Is(err, core.ErrUnproven):
		loop.copyWrong = true
		loop.Log.Error("this standby's copy of the ledger is not used: everything is loaded from the store", "error", err)
		return err
	case err != nil:
		if fault, ok := errors.AsType[*core.PanicError](err); ok {
			loop.recordFault(fault)
		}
		if row, refused := errors.AsType[*ledger.RestoreError](err); refused {
			err = badRow(err, row.What, row.ID) // the tables have the same names
		}
		return err
	}
	now, o := loop.Clock.Now(), &r.outcome
	loop.core.LeadWith(r.ledger)
	skew := loop.core.ClockSkew()
	loop.skew.Store(&skew)
	outages := loop.core.Ledger().Outages()
	loop.outages.Store(&outages)
	loop.Feed.reset(o.loaded.Revision)
	loop.Metrics.leads(o.meta.Epoch)
	loop.lastEpoch.Store(o.meta.Epoch)
	loop.sealKeys.Store(&o.meta.SealKeys)
	loop.beginRecall(o.meta)
	loop.leads.Store(true)
	loop.replica.forget()
	for _, what := range loop.core.HiddenProviders() {
		loop.Log.Warn(what)
	}
	hidden, refused := loop.core.HiddenProviders(), loop.core.Refusals()
	loop.hidden.Store(&hidden)
	loop.refusals.Store(&refused)
	loop.refreshPollers()
	for _, warning := range skew.Warning(now) {
		loop.Log.Warn(warning, "skew", skew.Ahead)
	}
	hosts := loop.core.Ledger().Counts()
	loop.Log.Info("leading", "epoch", o.meta.Epoch, "store", o.meta.StoreID, "revision", o.loaded.Revision,
		"allocations", r.live, "hosts", hosts.HostsReturning+hosts.HostsLost, "from_copy", o.loaded.Why == nil, "read_in", o.read, "restored_in", r.took)
	return nil
}

// finishLoad takes the lead with the restored ledger, if the lead is still wanted and the ledger
// was not found wrong.
func (loop *Loop) finishLoad(wrong error) {
	r := loop.restored
	if wrong != nil {
		r.err = wrong
	}
	loop.restored, loop.loading = nil, false
	defer loop.follower.resume()
	t := r.job.term
	if t != loop.term {
		return
	}
	if err := loop.startLeading(r); err != nil {
		loop.term = nil
		t.over <- err
		return
	}
	loop.atLeast, loop.recallFailed, loop.copyWrong = 0, nil, false
	t.Began <- r.meta
}

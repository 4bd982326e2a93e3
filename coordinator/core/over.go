package core

import (
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// over remembers the allocations whose agents have reported that their engines no longer run. If an
// agent later reports that one runs, the seal of its grant proves nothing.
type over struct {
	ids map[ledger.ID]struct{}
	due []overDue // in the order of time
}

type overDue struct {
	id    ledger.ID
	until ledger.Instant
}

// add remembers allocations for some time, and forgets expired ones.
func (o *over) add(now ledger.Instant, ids []ledger.ID, keep time.Duration) {
	n := 0
	for n < len(o.due) && o.due[n].until <= now {
		delete(o.ids, o.due[n].id)
		n++
	}
	o.due = o.due[n:]
	if o.ids == nil {
		o.ids = make(map[ledger.ID]struct{})
	}
	for _, id := range ids {
		if _, known := o.ids[id]; !known {
			o.ids[id] = struct{}{}
			o.due = append(o.due, overDue{id, now.Add(keep)})
		}
	}
}

// disown invalidates the seals of such allocations.
func (o *over) disown(engines []ledger.EngineReport) {
	for i := range engines {
		if _, said := o.ids[engines[i].ID]; said {
			engines[i].Unvouched = true
		}
	}
}

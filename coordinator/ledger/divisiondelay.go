package ledger

import "github.com/bursar/bursar/resource"

// noteMasters notes that masters of ours may have yet to start in the queue, with the part of
// one of them.
func (q *clusterQueue) noteMasters(part resource.Vector) {
	if d := q.division(); d == nil || d.Masters == 0 || !q.startsMasters() {
		return
	}
	of := &q.cluster.division
	if of.masters == nil {
		of.masters = make(map[*clusterQueue]resource.Vector)
	}
	if least, noted := of.masters[q]; noted {
		part = lesser(least, part)
	}
	of.masters[q] = part
}

// startsMasters reports whether masters of ours may have yet to start in the queue: the last
// report does not show them.
func (q *clusterQueue) startsMasters() bool {
	a, shown := &q.account, q.shownBy(q.inForce())
	for _, d := range masterDimensions {
		if a.used.Get(d.master)+a.reserved.Get(d.master) > shown.Get(d.master) {
			return true
		}
	}
	return false
}

// delay is a queue in which granted masters would lack something of a dimension.
type delay struct {
	queue *clusterQueue
	lacks string
}

// delays returns a queue in which granted masters would start only without the request. The request
// makes its own queue active, or takes undivided resources. Nil: there is none.
func (t *queueCharge) delays() (delayed *delay) {
	q := t.queue
	if q.division() == nil || !t.own || len(q.cluster.division.masters) == 0 {
		return nil
	}
	var short []delay
	q.whileActive(func() {
		for u := range q.cluster.division.masters {
			if d := u.activeAs(); u.dropped || d == nil || d.Masters == 0 || !u.startsMasters() {
				delete(q.cluster.division.masters, u)
			} else if lacks := u.mastersLack(t); lacks != "" {
				short = append(short, delay{u, lacks})
			}
		}
	})
	q.whileInactive(func() {
		for i := range short {
			u := &short[i]
			if (delayed == nil || u.queue.address.Compare(delayed.queue.address) < 0) && u.queue.mastersLack(nil) == "" {
				delayed = u
			}
		}
	})
	return delayed
}

// mastersLack returns the dimension in which the granted masters of the queue do not all start if
// next is granted, or nothing more (nil); empty: they do. The master that starts last has not taken
// anything yet itself, but all others may have. If next is granted, our use that a report may show
// counts twice, otherwise not.
func (q *clusterQueue) mastersLack(next *queueCharge) string {
	a, least := &q.account, q.cluster.division.masters[q]
	var taken, masters resource.Vector
	if next != nil {
		taken = next.vector
	}
	if next != nil && next.queue == q {
		masters, least = taken, lesser(least, taken)
	}
	for i, d := range masterDimensions {
		at := divisionDimension(i)
		has := a.used.Get(d.master) + a.reserved.Get(d.master)
		if next != nil {
			has += get(a.others, d.master) + get(masters, d.master)
		} else {
			has = max(has, get(q.report.Used, d.master))
		}
		if q.activeAs().limits(at) && has > q.mastersLimit(at, at.free(q)-get(taken, d.whole)+get(least, d.whole)) {
			return d.master
		}
	}
	return ""
}

// fitsDivision reports whether all granted masters start if this request is granted, too. If not,
// it notes that the request waits for that.
func (t *queueCharge) fitsDivision() bool {
	delayed := t.delays() != nil
	if q := t.queue; t.own && q.of == nil && (delayed || q.active != nil && q.active.delayed) {
		q.activity().delayed = delayed
		q.updateActive()
	}
	return !delayed
}

// delayShortfall appends that masters which were granted before must start first, if that is so.
func (t *queueCharge) delayShortfall(list []Shortfall) []Shortfall {
	delayed := t.delays()
	if delayed == nil {
		return list
	}
	s := t.queue.account.shortfall(delayed.lacks, get(t.vector, delayed.lacks), 0, NoteHeld)
	s.Detail = "for masters that were granted in " + delayed.queue.address.Path + " and have not started yet"
	return append(list, s)
}

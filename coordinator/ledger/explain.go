package ledger

import "github.com/bursar/bursar/internal/identity"

// Explain predicts the decision on a request now. It changes only the time.
//
// Errors: those of Allocate, except *InsufficientError and *ConflictError.
func (l *Ledger) Explain(now Instant, c AllocateCommand) (Explanation, error) {
	return l.explainCommand(now, &c, 0)
}

// ExplainAgain is Explain for a request that has waited and was starved since starvedSince: it also
// names the allocations in its way. 0: it was not starved.
//
// Errors: those of Explain.
func (l *Ledger) ExplainAgain(now Instant, c AllocateCommand, starvedSince Instant) (Explanation, error) {
	return l.explainCommand(now, &c, starvedSince)
}

func (l *Ledger) explainCommand(now Instant, c *AllocateCommand, starvedSince Instant) (Explanation, error) {
	l.begin(now)
	if user := c.rightsOf(); !c.Actor.MayActAs(user) {
		return Explanation{}, notAs(&c.Actor, user)
	}
	e, err := l.prepare(c)
	if err != nil {
		return Explanation{}, err
	}
	e.PassedSince = starvedSince
	x := l.explain(e, &c.Actor)
	l.discard(e)
	return x, nil
}

// ExplainID says why an allocation waits, or that it has been decided. An actor who comes through a
// host's agent is told only of the runners on that host.
//
// Errors: *NotFoundError.
func (l *Ledger) ExplainID(now Instant, id ID, actor identity.Actor) (Explanation, error) {
	l.begin(now)
	e, err := l.lookup(id)
	if err != nil {
		return Explanation{}, err
	}
	a := l.shown(e)
	if e.State != Waiting {
		return Explanation{Verdict: Decided, Allocation: &a, HostID: e.HostID, Place: -1, Accounts: l.accountInfos(e)}, nil
	}
	x := l.explain(e, &actor)
	x.Allocation = &a
	if e.class != nil && e.class.group != nil {
		q := e.class.group.queue
		x.Place = q.place(e)
		if q.account != nil {
			name := q.account.name
			x.BlockedBy = &name
		}
	}
	return x, nil
}

// explain decides a request as Allocate would now. It does not change which host Placement chooses
// next. If the request is starved, it also names those who stand in its way.
func (l *Ledger) explain(e *entry, actor *identity.Actor) Explanation {
	turn := l.turn
	defer func() { l.turn = turn }()
	h, blocked := l.decide(e)
	x := Explanation{Place: -1, Accounts: l.accountInfos(e)}
	if e.HostID == "" {
		x.Filters = l.survey(e, l.query(e))
	}
	if blocked == nil {
		x.Verdict, x.HostID = Fits, h.ID
		return x
	}
	x.Verdict = Waits
	refusal := l.refusal(e)
	if refusal.Never {
		x.Verdict = Never
	}
	x.Shortfalls = refusal.Shortfalls
	if e.PassedSince != 0 && !refusal.Never {
		x.Runners = l.runners(e, x.Shortfalls, actor)
	}
	return x
}

package ledger

// Explain says what would happen to a request now. It changes only the time.
//
// Errors: those of Allocate, except *InsufficientError and *ConflictError.
func (l *Ledger) Explain(now Instant, c AllocateCommand) (Explanation, error) {
	l.begin(now)
	if user := c.Labels.Value(userKey); !c.Actor.MayActAs(user) {
		return Explanation{}, notAs(&c.Actor, user)
	}
	e, err := l.prepare(&c)
	if err != nil {
		return Explanation{}, err
	}
	x := l.explain(e)
	l.discard(e)
	return x, nil
}

// ExplainID says why an allocation waits, or that it has been decided.
//
// Errors: *NotFoundError.
func (l *Ledger) ExplainID(now Instant, id ID) (Explanation, error) {
	l.begin(now)
	e, err := l.lookup(id)
	if err != nil {
		return Explanation{}, err
	}
	a := l.shown(e)
	if e.State != Waiting {
		return Explanation{Verdict: Decided, Allocation: &a, HostID: e.HostID, Place: -1, Accounts: l.accountInfos(e)}, nil
	}
	x := l.explain(e)
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
// next.
func (l *Ledger) explain(e *entry) Explanation {
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
	return x
}

package ledger

// Notes are an agent's remarks on an engine next to its use. Most engines have none but the rule.
// They never change: a change makes new ones.
type Notes struct {
	// StopError is why the agent could not follow the order to stop the engine, which it goes on
	// to try; empty: nothing went wrong.
	StopError string
	// Incidents are the counts of its agent over the engine's life, by kind and dimension. There is
	// one entry for each.
	Incidents []Incident
	// Rule is the host's policy for over-use. It is not stored.
	Rule OverUseRule
}

// StopError is that of its Notes.
func (a *Allocation) StopError() string {
	if a.Notes == nil {
		return ""
	}
	return a.Notes.StopError
}

// Incidents are those of its Notes.
func (a *Allocation) Incidents() []Incident {
	if a.Notes == nil {
		return nil
	}
	return a.Notes.Incidents
}

// rule is that of its Notes.
func (a *Allocation) rule() OverUseRule {
	if a.Notes == nil {
		return OverUseRule{}
	}
	return a.Notes.Rule
}

// note changes a copy of the notes.
func (a *Allocation) note(change func(*Notes)) {
	var n Notes
	if a.Notes != nil {
		n = *a.Notes
	}
	change(&n)
	if n.StopError == "" && len(n.Incidents) == 0 && n.Rule == (OverUseRule{}) {
		a.Notes = nil
		return
	}
	a.Notes = &n
}

// noteStopError reports whether that is another one.
func (a *Allocation) noteStopError(text string) (changed bool) {
	if changed = a.StopError() != text; changed {
		a.note(func(n *Notes) { n.StopError = text })
	}
	return changed
}

// mostRules bounds how many rules are shared. Configurations have a few.
const mostRules = 64

// noteRule stores the over-use rule of an entry's host. Entries with nothing else to note share
// their notes.
func (l *Ledger) noteRule(e *entry, rule OverUseRule) {
	switch {
	case e.rule() == rule:
		return
	case rule == OverUseRule{} || e.StopError() != "" || len(e.Incidents()) > 0:
		e.note(func(n *Notes) { n.Rule = rule })
		return
	}
	shared := l.overUseRules[rule]
	if shared == nil {
		if l.overUseRules == nil || len(l.overUseRules) >= mostRules {
			l.overUseRules = make(map[OverUseRule]*Notes)
		}
		shared = &Notes{Rule: rule}
		l.overUseRules[rule] = shared
	}
	e.Notes = shared
}

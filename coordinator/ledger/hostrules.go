package ledger

import (
	"github.com/bursar/bursar/coordinator/hostlabels"
	"github.com/bursar/bursar/label"
)

// Rules are conditions on the labels of hosts.
type Rules struct {
	Required  []label.Rule // all must hold
	Preferred []label.Rule // more that hold are better
	Avoided   []label.Rule // none may hold
}

// Admit reports whether a host with these labels may be used.
func (r *Rules) Admit(labels label.Set) bool {
	if r == nil {
		return true
	}
	for i := range r.Required {
		if !r.Required[i].Holds(labels) {
			return false
		}
	}
	for i := range r.Avoided {
		if r.Avoided[i].Holds(labels) {
			return false
		}
	}
	return true
}

// conditions are all that a request wants of the labels of its host.
func (w *Wishes) conditions() []hostlabels.Condition {
	switch {
	case w == nil:
		return nil
	case w.Rules == nil:
		return hostlabels.Conditions(w.Required, nil, nil)
	}
	return hostlabels.Conditions(w.Required, w.Rules.Required, w.Rules.Avoided)
}

// unmet says why no host there is may be used for a request, by its labels; empty if one may, or if
// there is no host, or if nothing is wanted of labels.
func (l *Ledger) unmet(e *entry) string {
	conditions := e.Wishes.conditions()
	q := Query{Request: e.request(), Wishes: e.Wishes}
	if len(conditions) == 0 || len(l.hosts) == 0 || l.placer.Largest(q) != NoSlot {
		return ""
	}
	if len(e.Wishes.Avoid) > 0 {
		others := *e.Wishes
		others.Avoid, q.Wishes = nil, &others
		if l.placer.Largest(q) != NoSlot {
			return "the request avoids each host that meets its conditions on labels"
		}
	}
	return l.placer.Census().Unmet(conditions)
}

// bytes bounds the size of the conditions in a row.
func (r *Rules) bytes() (n int) {
	if r == nil {
		return 0
	}
	for _, list := range [][]label.Rule{r.Required, r.Preferred, r.Avoided} {
		for i := range list {
			n += textBytes + 1 + len(list[i].String())
		}
	}
	return n
}

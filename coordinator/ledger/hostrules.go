package ledger

import (
	"strings"

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

// Preferences is how many rules say which hosts are better.
func (r *Rules) Preferences() int {
	if r == nil {
		return 0
	}
	return len(r.Preferred)
}

// Prefer counts the preferred rules that hold.
func (r *Rules) Prefer(labels label.Set) (n int) {
	for i := range r.Preferences() {
		if r.Preferred[i].Holds(labels) {
			n++
		}
	}
	return n
}

// text lists the conditions that must hold, for people; empty without any.
func (r *Rules) text() string {
	if r == nil {
		return ""
	}
	var texts []string
	for _, rule := range r.Required {
		texts = append(texts, rule.String())
	}
	for _, rule := range r.Avoided {
		texts = append(texts, "not "+rule.String())
	}
	return strings.Join(texts, ", ")
}

// text lists the labels and the conditions of a request for a refusal.
func (w *Wishes) text() string {
	labels, rules := w.Required.String(), w.Rules.text()
	if labels != "" && rules != "" {
		return labels + ", " + rules
	}
	return labels + rules
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

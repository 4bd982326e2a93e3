package hostlabels

import (
	"github.com/bursar/bursar/label"
)

// Condition is something that a request wants of the labels of its host.
type Condition struct {
	text  string
	key   string
	value string // of a plain label
	rule  label.Rule
	plain bool // a label and its value, and no rule
	avoid bool // the rule must not hold
}

// Conditions are all conditions of a request: the labels that a host must have, the rules that must
// hold, and those of which none may hold.
func Conditions(required label.Set, must, never []label.Rule) []Condition {
	list := make([]Condition, 0, len(required)+len(must)+len(never))
	for i, l := range required {
		list = append(list, Condition{text: required[i : i+1].Text(), key: l.Key, value: l.Value, plain: true})
	}
	for _, rule := range must {
		list = append(list, Condition{text: rule.String(), key: rule.Key(), rule: rule})
	}
	for _, rule := range never {
		list = append(list, Condition{text: rule.String(), key: rule.Key(), rule: rule, avoid: true})
	}
	return list
}

// holds reports whether a host with these labels meets the condition.
func (c *Condition) holds(labels label.Set) bool {
	value, found := labels.Get(c.key)
	return c.holdsFor(value, found)
}

// holdsFor is holds for a host with that value of the condition's label, or without the label.
func (c *Condition) holdsFor(value string, found bool) bool {
	if c.plain {
		return found && (c.value == label.Any || c.value == value)
	}
	return c.rule.HoldsFor(value, found) != c.avoid
}

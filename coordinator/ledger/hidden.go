package ledger

import (
	"fmt"

	"github.com/bursar/bursar/label"
)

// HiddenQuota is a rule that is not in force: another rule is in force in its place, or it is wrong
// by itself. It stays in the store or in its file, and comes into force again once the cause has
// gone.
type HiddenQuota struct {
	Quota
	// Holder is the selector of the rule that hides it, and HolderSource the source of that rule.
	// Empty source: it is wrong by itself.
	Holder       label.Selector
	HolderSource string

	refusal error // a *FieldError, for a command that would put the rule
}

// Why says in words why the rule is not in force.
func (h *HiddenQuota) Why() string {
	switch {
	case h.HolderSource == "":
		return fmt.Sprintf("it is wrong: %v", h.refusal)
	case h.tie():
		return fmt.Sprintf("it ties with %s of %s: a request could match both and neither is more specific", h.Holder, h.HolderSource)
	default:
		return "the rule for this selector is that of " + h.HolderSource
	}
}

func (h *HiddenQuota) String() string {
	return fmt.Sprintf("quota %s of %s is not in force: %s", h.Selector.Text(), h.Source, h.Why())
}

// tie reports whether it is hidden by a rule with another selector.
func (h *HiddenQuota) tie() bool { return h.HolderSource != "" && !h.Holder.Equal(h.Selector) }

// hide records that a rule is not in force.
func (rs *ruleset) hide(q Quota, holder *rule, err error) {
	h := HiddenQuota{Quota: q, refusal: err}
	if holder != nil {
		h.Holder, h.HolderSource = holder.Selector, holder.Source
	}
	rs.hidden = append(rs.hidden, h)
}

// taken refuses another rule with the selector of this one.
func (r *rule) taken(selector string) error {
	return &FieldError{"selector", selector, "a selector that has no rule of " + r.Source + ": change the rule there"}
}

// tied refuses a rule that is as specific as another one.
func tied(selector, with label.Selector) error {
	return &FieldError{
		"selector", selector.Text(), "no tie with " + with.Text() + ": a request could match both and neither is more specific; " +
			"add a rule with the exact values of both, or make one of them more specific",
	}
}

// refusal returns why a command may not make these rules: a rule that it puts would be hidden at
// once, or it would hide a rule that is in force now. put reports whether the command puts a rule,
// by selector and source.
func (rs *ruleset) refusal(before []HiddenQuota, put func(selector label.Selector, source string) bool) error {
	type name struct{ source, selector string }
	known := make(map[name]bool, len(before))
	for i := range before {
		known[name{before[i].Source, before[i].Selector.String()}] = true
	}
	for i := range rs.hidden {
		h := &rs.hidden[i]
		switch {
		case put(h.Selector, h.Source):
			return h.refusal
		case known[name{h.Source, h.Selector.String()}]:
		case h.tie() && put(h.Holder, h.HolderSource):
			return tied(h.Holder, h.Selector) // the error names the command's own rule
		default:
			return h.refusal
		}
	}
	return nil
}

// CheckQuotas checks the rules of files alone, without a ledger. The error is a *FieldError: a
// rule is wrong, or hides another.
func CheckQuotas(quotas []Quota) error {
	return checkFiles(bySource(quotas), func(label.Selector, string) bool { return true })
}

// checkFiles refuses rules of files that hide each other, without regard to stored rules: the
// result of a restart must not depend on the store.
func checkFiles(sources map[string][]Quota, put func(selector label.Selector, source string) bool) error {
	files := make(map[string][]Quota, len(sources))
	for source, quotas := range sources {
		if !stored(source) {
			files[source] = quotas
		}
	}
	rules := newRuleset(files)
	return rules.refusal(nil, put)
}

func bySource(quotas []Quota) map[string][]Quota {
	sources := make(map[string][]Quota)
	for _, q := range quotas {
		sources[q.Source] = append(sources[q.Source], q)
	}
	return sources
}

// HiddenQuotas returns the rules that are not in force, by selector. The list must not be changed.
func (l *Ledger) HiddenQuotas() []HiddenQuota { return l.latestRules().hidden }

// RulesGeneration counts how often the rules were replaced.
func (l *Ledger) RulesGeneration() uint64 { return l.rulesGeneration }

package ledger

import (
	"testing"

	"github.com/bursar/bursar/coordinator/hostlabels"
	"github.com/bursar/bursar/label"
)

func TestConditionsAdmitHosts(t *testing.T) {
	in, old, ssd := ruleOf(t, "zone in (a,b)"), ruleOf(t, "old"), ruleOf(t, "disk=ssd")
	rules := &Rules{Required: []label.Rule{in}, Preferred: []label.Rule{ssd}, Avoided: []label.Rule{old}}
	for name, test := range map[string]struct {
		labels label.Set
		admits bool
	}{
		"all":           {label.Of("zone", "a", "disk", "ssd"), true},
		"not better":    {label.Of("zone", "b"), true},
		"none":          {nil, false},
		"another":       {label.Of("zone", "c", "disk", "ssd"), false},
		"to be avoided": {label.Of("zone", "a", "old", ""), false},
	} {
		h := &host{HostRecord: HostRecord{Labels: test.labels}}
		if got := h.suits(&Wishes{Rules: rules}); got != test.admits {
			t.Errorf("%s: %v; want %v", name, got, test.admits)
		}
	}
	none := (*Rules)(nil)
	if !none.Admit(nil) || none.bytes() != 0 {
		t.Error("no rules are rules")
	}
	wishes := &Wishes{Required: label.Of("rack", "1"), Rules: rules}
	const lacks = "rack=1 (it has no label rack), zone in (a,b) (it has zone=c), not old (it has old=yes)"
	if text := hostlabels.Lacks(label.Of("zone", "c", "old", "yes"), wishes.conditions()); text != lacks {
		t.Errorf("%q, want %q", text, lacks)
	}
	if got := rules.bytes(); got < len("zone in (a,b)")+len("old")+len("disk=ssd") {
		t.Errorf("%d bytes", got)
	}
}

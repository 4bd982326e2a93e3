package render

import (
	"strings"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// A refusal for what limits applications says in words what binds.
func TestWhatLimitsApplicationsIsSaidInWords(t *testing.T) {
	queue := func(user string) *bursarv1.AccountName {
		labels := map[string]string{"kind": "yarn", "cluster": "prod", "path": "root.a"}
		if user != "" {
			labels["user"] = user
		}
		return &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_QUEUE, Labels: labels}
	}
	for want, s := range map[string]*bursarv1.Shortfall{
		"queue yarn:prod:root.a: it may use 4505MiB of memory for application masters, and 512MiB of that is free; this one needs 1GiB": {
			Account: queue(""), Dimension: resource.AMMemory, Requested: 1 << 30, Available: 512 << 20, Limit: 4505 << 20,
		},
		"user bob in queue yarn:prod:root.a: it may use 2 cores for application masters, and 0 of them are free; this one needs 1": {
			Account: queue("bob"), Dimension: resource.AMCPU, Requested: 1000, Limit: 2000,
		},
		"queue yarn:prod:root.a: it may have 5 applications, and room for 0 more; this needs 1": {
			Account: queue(""), Dimension: resource.Applications, Requested: 1, Limit: 5,
		},
		"queue yarn:prod:root.a: its largest container has 8GiB of memory; the application master needs 9GiB (above the limit, it can never fit)": {
			Account: queue(""), Dimension: resource.AMMemory, Requested: 9 << 30, Available: 8 << 30, Limit: 8 << 30, NoteCode: noteNever,
		},
		"queue yarn:prod:root.a: its largest container has 4 cores; the application master needs 5 (above the limit, it can never fit)": {
			Account: queue(""), Dimension: resource.AMCPU, Requested: 5000, Available: 4000, Limit: 4000, NoteCode: noteNever,
		},
		"user bob in queue yarn:prod:root.a: memory: asked for 2GiB, available 1GiB of 4GiB, short by 1GiB": {
			Account: queue("bob"), Dimension: resource.Memory, Requested: 2 << 30, Available: 1 << 30, Limit: 4 << 30,
		},
	} {
		if got := shortfallText(s); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// What no host has as labels is said, also of a large fleet, and so is what a named host lacks.
func TestConditionsThatNoHostMeetsAreShown(t *testing.T) {
	const unmet = "no host meets zone=a (hosts have zone b, c)"
	for want, f := range map[string]*bursarv1.HostFilters{
		"hosts: none of 3 is as asked for yet (--require, --avoid)":              {Total: 3, Labels: 3},
		"hosts: none of 3 is as asked for yet (--require, --avoid): " + unmet:    {Total: 3, Labels: 3, Unmet: unmet},
		"hosts: none of 9000 is as asked for yet (--require, --avoid): " + unmet: {Total: 3000, Labels: 3000, Fleet: 9000, Unmet: "no host meets\nzone=a (hosts have zone b,\tc)"},
		"hosts: 0 of 3000 fit, which are a sample of 9000, 3000 by labels":       {Total: 3000, Labels: 3000, Fleet: 9000},
		"hosts: 1 of 3 fit, 2 by labels":                                         {Total: 3, Labels: 2, Fit: 1},
	} {
		if got := FiltersText(f, nil); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		hint := ShortfallHint(&bursarv1.InsufficientResources{Verdict: bursarv1.InsufficientResources_VERDICT_NOT_NOW, Filters: f}, "bursar explain")
		if none := strings.Contains(want, "none of"); none != strings.Contains(hint, "bursar hosts --show-labels") {
			t.Errorf("%s: the hint is %s", want, hint)
		}
	}
	named := &bursarv1.Shortfall{
		Account:   &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_HOST, Labels: map[string]string{"host": "h1"}},
		Dimension: resource.Memory, Requested: 1 << 30, Limit: 8 << 30, NoteCode: noteLabels, Detail: "it does not meet zone=a (it has zone=b)",
	}
	if got, want := shortfallText(named), "host h1: it does not meet zone=a (it has zone=b)"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// What the numbers of a queue do not mean is said next to them.
func TestWhatAClusterDoesNotSayOrEnforceIsSaid(t *testing.T) {
	soft := 25.0
	for want, a := range map[string]*bursarv1.Account{
		"":                                {},
		"cpu not enforced by the cluster": {NotEnforced: []string{"cpu"}},
		"limit of am-memory and am-cpu estimated":                                 {Estimated: []string{"am-memory", "am-cpu"}},
		"the cluster may hold a user at 25 % of the queue while others want more": {UserPercent: &soft},
	} {
		if got := clusterNote(a); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

// The hint names where to see what is short: memory that other programs have is in no allocation.
func TestTheHintFitsTheReason(t *testing.T) {
	host := &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_HOST, Labels: map[string]string{"host": "vm-1"}}
	quota := &bursarv1.Shortfall{Account: &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_QUOTA}, Dimension: "instances", Requested: 1}
	measured := &bursarv1.Shortfall{Account: host, Dimension: "memory", Requested: 4 << 30, NoteCode: noteMeasured}
	pressure := &bursarv1.Shortfall{Account: host, Dimension: "memory", Requested: 4 << 30, NoteCode: notePressure}
	cordoned := &bursarv1.Shortfall{Account: host, Dimension: "memory", Requested: 4 << 30, NoteCode: noteCordoned}
	const ofMachine = "waits until programs on the host give memory back, which need not be engines; `bursar hosts vm-1` shows what it measures"
	for _, c := range []struct {
		reason string
		short  []*bursarv1.Shortfall
		want   string
	}{
		{"waited", []*bursarv1.Shortfall{measured}, "a longer --wait " + ofMachine},
		{"waited", []*bursarv1.Shortfall{pressure}, "a longer --wait " + ofMachine},
		{"vetoed", []*bursarv1.Shortfall{measured}, "--wait 30s " + ofMachine},
		{"refused", []*bursarv1.Shortfall{measured}, "--wait 30s " + ofMachine},
		{"waited", []*bursarv1.Shortfall{quota}, "a longer --wait, or `bursar allocations` to see who holds what"},
		{"waited", []*bursarv1.Shortfall{quota, measured}, "a longer --wait, or `bursar allocations` to see who holds what"},
		{"waited", []*bursarv1.Shortfall{cordoned}, "a longer --wait waits until the host is uncordoned; `bursar hosts` shows those that take engines"},
		{"refused", []*bursarv1.Shortfall{cordoned}, "--wait 30s waits until the host is uncordoned; `bursar hosts` shows those that take engines"},
	} {
		in := &bursarv1.InsufficientResources{Reason: c.reason, Verdict: bursarv1.InsufficientResources_VERDICT_NOT_NOW, Shortfalls: c.short}
		if got := ShortfallHint(in, "bursar explain"); got != c.want {
			t.Errorf("%s of %v: %s\nwant %s", c.reason, c.short, got, c.want)
		}
	}
}

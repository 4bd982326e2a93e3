package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// BenchmarkPutQuota changes one rule while so many allocations live: its limit, with which account
// sets keep their accounts, and its weight, with which each set gets other ones.
func BenchmarkPutQuota(b *testing.B) {
	for what, change := range map[string]func(rule *ledger.Quota){
		"limit":  func(rule *ledger.Quota) { rule.Limit = rule.Limit.WithMemory(rule.Limit.Memory() - 1) },
		"weight": func(rule *ledger.Quota) { rule.Weight = rule.Weight%2 + 1 },
	} {
		for _, live := range []int{2_000, 20_000, 200_000} {
			b.Run(fmt.Sprintf("%s/live=%d", what, live), func(b *testing.B) {
				l, rule := limited(b, live)
				for b.Loop() {
					change(&rule)
					must(b, l.PutQuota(start, rule))
					l.Changes()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*live), "ns/allocation")
			})
		}
	}
}

// BenchmarkNewLabel puts a rule for a label that no rule has named, while so many allocations live,
// until it is in force. longest-us is the longest step.
func BenchmarkNewLabel(b *testing.B) {
	for _, live := range []int{2_000, 20_000, 200_000} {
		b.Run(fmt.Sprintf("live=%d", live), func(b *testing.B) {
			l, rule := limited(b, live)
			longest, steps := time.Duration(0), 0
			step := func(do func()) {
				longest, steps = max(longest, took(do)), steps+1
			}
			for b.Loop() {
				rule.Selector = selector(b, fmt.Sprintf("label%d=*", steps))
				step(func() { must(b, l.PutQuota(start, rule)) })
				for l.Refiling() {
					step(func() { l.Advance(start) })
				}
				step(func() { must(b, l.DeleteQuota(start, rule.Selector)) })
				l.Changes()
			}
			b.ReportMetric(float64(longest.Microseconds()), "longest-us")
			b.ReportMetric(float64(steps)/float64(b.N), "steps/op")
		})
	}
}

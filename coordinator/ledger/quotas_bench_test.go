package ledger_test

import (
	"fmt"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
)

// BenchmarkPutQuota changes one rule while so many allocations live: its limit, with which they
// keep their accounts, and its weight, with which each of them gets its accounts again, in one step
// (ADR 12).
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

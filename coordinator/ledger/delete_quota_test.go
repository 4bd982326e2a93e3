package ledger_test

import (
	"fmt"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// The store may have two rules for one selector if somebody wrote rows by hand. Deleting it leaves
// none, in any order of their sources in a map.
func TestDeletingARuleThatTwoSourcesHaveLeavesNone(t *testing.T) {
	selector, err := label.NewSelector(map[string]string{"user": "alice"})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		l := ledger.New(ledger.Config{}, newPlainPlacer())
		var rules []ledger.Quota
		for i := range 5 {
			rules = append(rules, ledger.Quota{
				Selector: selector, Source: fmt.Sprint("source-", i), Limit: resource.Vector{}.WithMemory(int64(1 + i)),
			})
		}
		if err := l.Restore(start, ledger.Snapshot{Quotas: rules}); err != nil {
			t.Fatal(err)
		}
		if n := len(l.HiddenQuotas()); n != 4 {
			t.Fatalf("%d rules are hidden; want 4", n)
		}
		if err := l.DeleteQuota(start, selector); err != nil {
			t.Fatal(err)
		}
		changes := l.Changes()
		if len(l.HiddenQuotas()) != 0 || len(changes.Quotas) != 0 || len(changes.QuotasRemoved) != 1 {
			t.Fatalf("%d are hidden, %d put, %d removed; want one removed and nothing else", len(l.HiddenQuotas()), len(changes.Quotas), len(changes.QuotasRemoved))
		}
	}
}

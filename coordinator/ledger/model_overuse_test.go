package ledger_test

import (
	"maps"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// overUse draws what an agent says of an engine, in any order, and with a dimension twice if the
// agent is broken.
func (m *machine) overUse(t *rapid.T) []ledger.OverUse {
	var said []ledger.OverUse
	for range max(0, rapid.IntRange(-3, 3).Draw(t, "over-use")) {
		u := ledger.OverUse{
			Dimension: rapid.SampledFrom([]string{resource.Memory, resource.CPU}).Draw(t, "dimension"),
			Used:      rapid.Int64Range(5, 9).Draw(t, "used"), Entitled: rapid.SampledFrom([]int64{4, 4, 3}).Draw(t, "entitled"),
			Since:  m.model.now.Add(-rapid.SampledFrom([]time.Duration{0, time.Second, 5 * time.Second}).Draw(t, "for")),
			Policy: rapid.SampledFrom([]ledger.OverUsePolicy{ledger.PolicyWarn, ledger.PolicyWarn, ledger.PolicyKill}).Draw(t, "policy"),
		}
		if u.Policy == ledger.PolicyKill {
			u.StopTime = u.Since.Add(rapid.SampledFrom([]time.Duration{10 * time.Second, time.Minute}).Draw(t, "grace"))
		}
		said = append(said, u)
	}
	return said
}

// overUse is what an engine uses beyond its entitlement, by dimension.
type overUse map[string]ledger.OverUse

// heard is what is known after an agent's report, and whether the change must be recorded.
// Over-use that goes on stays as it was when it began.
func (known overUse) heard(said []ledger.OverUse) (next overUse, news bool) {
	next = make(overUse)
	for _, u := range slices.Backward(said) { // the first of a dimension is the last to be entered
		next[u.Dimension] = u
	}
	for dimension, u := range next {
		if before, goesOn := known[dimension]; goesOn && u.Policy == before.Policy && u.Since <= before.Since && u.Entitled == before.Entitled {
			next[dimension] = before
		} else {
			news = true
		}
	}
	return next, news || len(next) != len(known)
}

func (known overUse) list() []ledger.OverUse {
	var list []ledger.OverUse
	for _, dimension := range slices.Sorted(maps.Keys(known)) {
		list = append(list, known[dimension])
	}
	return list
}

// checkOverUse compares what an allocation says with what its agent has said.
func (m *machine) checkOverUse(t *rapid.T, a *ledger.Allocation, want overUse) {
	t.Helper()
	if diff := cmp.Diff(want.list(), a.OverUse, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("over-use of %s (-want +got):\n%s", a.ID, diff)
	}
}

// checkOverUsers compares the numbers of engines in over-use.
func (m *machine) checkOverUsers(t *rapid.T) {
	t.Helper()
	users, kinds := 0, make(map[ledger.OverUseKind]int)
	for _, row := range m.model.rows {
		if len(row.overUse) > 0 {
			users++
		}
		for dimension, u := range row.overUse {
			kinds[ledger.OverUseKind{Dimension: dimension, Policy: u.Policy}]++
		}
	}
	if got := m.ledger.Counts(); got.OverUsers != users || !maps.Equal(got.OverUse, kinds) {
		t.Fatalf("%d engines in over-use, %v; want %d, %v", got.OverUsers, got.OverUse, users, kinds)
	}
}

package yarn_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/providers/yarn"
)

// An answer has no weights; the steady shares show them. If a steady share equals the maximum, the
// weight is this or more. If masters run that YARN never compared with a limit, they are not
// limited.
func TestSharesTellTheWeightsOfAFairScheduler(t *testing.T) {
	want := `
root 65536 to 1125899906842624, memory 65536 to 65536, masters 0 of [memory cpu]; below the weight is 24576
root.a 24576 to 24576, memory 0 to 32768, masters 0 of [memory]; below the weight is 12288
root.a.a2 12288 to 12288, memory 0 to 65536, masters 0 of [memory]; below the weight is 6144
root.a.a2.deep 6144 to 6144, memory 0 to 65536, masters 0 of [memory]
root.a.a2.low 6144 to 6144, memory 0 to 65536, masters 0.5 of [memory]
root.a.a1 12288 to 12288, memory 4096 to 16384, masters 0 of [memory]
root.default 16384 to 1125899906842624, memory 0 to 16384, masters 0.5 of [memory]
root.b 24576 to 24576, memory 0 to 65536, masters 0 of [memory]
`
	var b strings.Builder
	for _, q := range capturedQueues(t, "3.4.3-fair", yarn.Assumptions{Undeclared: yarn.Undeclared{Fair: true}}) {
		d := q.Division
		if d == nil {
			t.Fatalf("%s takes part in no division", q.Path)
		}
		fmt.Fprintf(&b, "%s %d to %d, memory %d to %d, masters %v of %v", q.Path, d.LeastWeight, d.Weight, d.Least.Memory()>>20, d.Most.Memory()>>20, d.Masters, d.Divided)
		if q.ChildDivision != nil {
			fmt.Fprintf(&b, "; below the weight is %d", q.ChildDivision.Weight)
		}
		b.WriteByte('\n')
	}
	if diff := cmp.Diff(want, "\n"+b.String()); diff != "" {
		t.Error(diff)
	}
	for _, q := range capturedQueues(t, "2.7.7-fair", yarn.Assumptions{}) {
		if q.Division != nil {
			t.Errorf("%s: it is not told what masters have, and they are limited by %+v", q.Path, q.Division)
		}
	}
}

package ledger

import (
	"math"
	"testing"
)

func TestPagesAreRoundedUp(t *testing.T) {
	for bytes, want := range map[int64]int64{
		math.MinInt64: 0, 0: 0, 1: 4096, 4096: 4096, 4097: 8192, 590348288: 590348288, math.MaxInt64: math.MaxUint32 * 4096,
	} {
		if got := PagesOf(bytes).Bytes(); got != want {
			t.Errorf("%d bytes are %d; want %d", bytes, got, want)
		}
	}
}

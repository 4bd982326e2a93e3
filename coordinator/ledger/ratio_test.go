package ledger_test

import (
	"testing"
	"time"
)

// wantRatio fails unless many takes at most so many times as long as few. They are timed in turn,
// and the least of each counts: what else a machine does slows both down. On a busy one it takes
// more rounds.
func wantRatio(t *testing.T, what string, most int64, few, many func() time.Duration) {
	t.Helper()
	const atLeast, atMost = 5, 100
	least, leastOfMany := few(), many()
	for round := 1; round < atMost; round++ {
		if round >= atLeast && int64(leastOfMany) <= most*int64(least) {
			return
		}
		least, leastOfMany = min(least, few()), min(leastOfMany, many())
	}
	t.Errorf("%s takes %v with many, and %v with few: want at most %d times as long", what, leastOfMany, least, most)
}

// took is how long it takes to do something.
func took(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

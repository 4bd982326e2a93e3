package serve

import (
	"testing"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/cli/failure"
)

func TestAStoreThatCannotBeUsedHasItsExitCode(t *testing.T) {
	for reason, want := range map[store.Refusal]int{store.Damaged: failure.ExitConfig, store.InUse: failure.ExitFailed} {
		if got := failure.ExitCode(serverError(&store.RefusedError{Reason: reason})); got != want {
			t.Errorf("%v: exit code %d, want %d", reason, got, want)
		}
	}
}

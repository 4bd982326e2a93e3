package ledger_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Names without hosts are bounded, and an order for a name that is expected already is none more.
func TestExpectedHostsAreBounded(t *testing.T) {
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	for i := range 10_000 {
		_, err := l.Cordon(start, fmt.Sprintf("vm-%d", i), "")
		must(t, err)
	}
	_, err := l.Cordon(start, "vm-more", "")
	if _, full := errors.AsType[*ledger.StateError](err); !full {
		t.Errorf("one more: %v", err)
	}
	_, err = l.Drain(start, "vm-0", "disk", nil)
	must(t, err)
	_, err = l.Uncordon(start, "vm-1")
	must(t, err)
	_, err = l.Cordon(start, "vm-more", "")
	must(t, err)
	if n := l.Counts().HostsExpected; n != 10_000 {
		t.Errorf("%d are expected", n)
	}
}

package ledger_test

import (
	"errors"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
)

// A process is the engine of one allocation, also if its start or its boot is left out.
func TestAProcessIsTheEngineOfOneAllocation(t *testing.T) {
	one := ledger.Process{PID: 100, StartTime: 7, BootID: "boot"}
	verified := one
	verified.Verified = true
	for name, test := range map[string]struct {
		first, second ledger.Process
		user          string // of the second one
		refused, ends bool   // the second one is refused, or the first one ends
	}{
		"the same":                          {one, one, "alice", true, false},
		"the same, by another user":         {one, one, "bob", true, false},
		"without a start":                   {one, ledger.Process{PID: 100}, "alice", true, false},
		"the first without a start":         {ledger.Process{PID: 100}, one, "alice", true, false},
		"the same pid at another time":      {one, ledger.Process{PID: 100, StartTime: 8, BootID: "boot"}, "alice", false, false},
		"the same pid after a boot":         {one, ledger.Process{PID: 100, StartTime: 7, BootID: "other"}, "alice", false, false},
		"another pid":                       {one, ledger.Process{PID: 101, StartTime: 7, BootID: "boot"}, "alice", false, false},
		"none":                              {ledger.Process{}, ledger.Process{}, "alice", false, false},
		"a verified one":                    {verified, verified, "bob", true, false},
		"a claim of a verified one":         {verified, one, "bob", true, false},
		"verified, and claimed by the user": {one, verified, "alice", true, false},
		"verified, and claimed by another":  {one, verified, "bob", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := ready(t)
			first, second := reserve(t, l, "alice").ID, reserve(t, l, test.user).ID
			_, err := l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: first, Process: test.first})
			must(t, err)
			_, err = l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: second, Process: test.second})
			if _, refused := errors.AsType[*ledger.StateError](err); refused != test.refused || err != nil && !refused {
				t.Errorf("the second one: %v", err)
			}
			if _, lives := l.Get(first); lives == test.ends {
				t.Errorf("the first one lives: %v", lives)
			}
			if broken := l.Audit(); len(broken) > 0 {
				t.Errorf("%v", broken)
			}
			// Once it has ended, the process is free.
			_, _ = l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: first})
			_, err = l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: second, Process: test.second})
			must(t, err)
		})
	}
}

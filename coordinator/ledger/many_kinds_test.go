package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// Requests of a thousand kinds wait behind one account, each too large for what becomes free. The
// one that fits is behind them all, and is still granted in the same step: no time must pass, and
// nothing else must become free. Behind still more kinds it is not tried, so that no step takes
// long. Then all of them are tried when something else becomes free.
func TestWhoFitsIsGrantedHoweverManyKindsWaitBeforeIt(t *testing.T) {
	for kinds, granted := range map[int]bool{1: true, 40: true, 1023: true, 1024: false} {
		l := ready(t)
		must(t, l.PutQuota(start, ledger.Quota{Limit: resource.Vector{}.WithMemory(4)}))
		ask := func(user string, memory int64) ledger.Allocation {
			result, err := l.Allocate(start, ledger.AllocateCommand{
				Actor: identity.Local(), Labels: label.Of("user", user), Wait: time.Hour, Async: true,
				Resource: resource.NewResource(resource.Vector{}.WithMemory(memory)),
			})
			must(t, err)
			return result.Allocation
		}
		release := func(now ledger.Instant, a ledger.Allocation) {
			_, err := l.Release(now, ledger.ReleaseCommand{Actor: identity.Local(), ID: a.ID})
			must(t, err)
			for due, set := l.NextTimer(); set && due <= now; due, set = l.NextTimer() {
				l.Advance(now) // what is due at once
			}
		}
		runs, goesOn := ask("runner", 1), ask("runner", 3)
		var first ledger.Allocation
		for i := range kinds {
			large := ask(fmt.Sprintf("user%04d", i), 2)
			if large.State != ledger.Waiting {
				t.Fatalf("%s is %s; want waiting", large.ID, large.State)
			}
			if i == 0 {
				first = large
			}
		}
		small := ask("zoe", 1)
		release(start.Add(time.Second), runs)
		if now, there := l.Get(small.ID); !there || (now.State == ledger.Reserved) != granted {
			t.Errorf("behind %d kinds that do not fit, the one that does is %s, live %t; want granted: %t", kinds, now.State, there, granted)
		}
		release(start.Add(2*time.Second), goesOn)
		if now, there := l.Get(first.ID); !there || now.State != ledger.Reserved {
			t.Errorf("of %d kinds, the first is %s, live %t, although there is enough for it by now; want reserved", kinds, now.State, there)
		}
	}
}

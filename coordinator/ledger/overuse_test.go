package ledger_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
)

// An agent may say of an engine what no agent should: each dimension counts once, as it was said
// first, in words that a row can hold.
func TestOfWhatAnAgentSaysOfOverUseEachDimensionCountsOnce(t *testing.T) {
	at := start.Add(time.Second)
	use := func(dimension string, policy ledger.OverUsePolicy, since ledger.Instant) ledger.OverUse {
		return ledger.OverUse{Dimension: dimension, Used: 9, Entitled: 1, Policy: policy, Since: since}
	}
	for name, test := range map[string]struct{ said, want []ledger.OverUse }{
		"nothing":               {nil, nil},
		"a policy to come":      {[]ledger.OverUse{use("memory", ledger.PolicyKill+1, start)}, nil},
		"the last policy":       {[]ledger.OverUse{use("memory", ledger.PolicyKill, start)}, []ledger.OverUse{use("memory", ledger.PolicyKill, start)}},
		"without a beginning":   {[]ledger.OverUse{use("memory", ledger.PolicyWarn, 0)}, []ledger.OverUse{use("memory", ledger.PolicyWarn, at)}},
		"a dimension twice":     {[]ledger.OverUse{use("memory", ledger.PolicyWarn, start), use("memory", ledger.PolicyKill, start)}, []ledger.OverUse{use("memory", ledger.PolicyWarn, start)}},
		"another order":         {[]ledger.OverUse{use("memory", ledger.PolicyWarn, start), use("cpu", ledger.PolicyWarn, 1)}, []ledger.OverUse{use("cpu", ledger.PolicyWarn, 1), use("memory", ledger.PolicyWarn, start)}},
		"what is no text twice": {[]ledger.OverUse{use("\xff", ledger.PolicyWarn, start), use("\xfe", ledger.PolicyWarn, start)}, []ledger.OverUse{use("\uFFFD", ledger.PolicyWarn, start)}},
	} {
		l := ready(t)
		a := reserve(t, l, "alice")
		_, err := l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: a.ID, Process: ledger.Process{PID: 1}})
		must(t, err)
		for sequence := range uint64(2) { // said again it is no news
			l.Changes()
			_, err = l.Sync(at, ledger.SyncCommand{
				HostID: "h1", Incarnation: 1, Sequence: sequence + 2, Engines: []ledger.EngineReport{{ID: a.ID, OverUse: test.said}},
			})
			must(t, err)
			if got, _ := l.Get(a.ID); !slices.Equal(got.OverUse, test.want) {
				t.Errorf("%s: it uses %+v; want %+v", name, got.OverUse, test.want)
			}
			if news := len(l.Changes().Transitions) > 0; news != (len(test.want) > 0 && sequence == 0) {
				t.Errorf("%s: others hear of report %d: %t", name, sequence, news)
			}
		}
		kinds := make(map[ledger.OverUseKind]int)
		for _, u := range test.want {
			kinds[ledger.OverUseKind{Dimension: u.Dimension, Policy: u.Policy}]++
		}
		if c := l.Counts(); !maps.Equal(c.OverUse, kinds) || c.OverUsers != min(1, len(kinds)) {
			t.Errorf("%s: %d engines in over-use, %v; want %v", name, c.OverUsers, c.OverUse, kinds)
		}
		_, err = l.Release(at, ledger.ReleaseCommand{Actor: identity.Local(), ID: a.ID, Force: true})
		must(t, err)
		if c := l.Counts(); len(c.OverUse) > 0 || c.OverUsers != 0 {
			t.Errorf("%s: after its end %d engines are in over-use, %v", name, c.OverUsers, c.OverUse)
		}
	}
}

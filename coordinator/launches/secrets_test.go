package launches

import (
	"log/slog"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/orders"
)

// A caller that repeats its call may lose the first one: the secrets are those of the call that is
// still attached.
func TestSecretsStayAsLongAsACallIsAttached(t *testing.T) {
	l := New(nil, nil, orders.New(), slog.New(slog.DiscardHandler))
	a := &ledger.Allocation{Caller: "alice", RequestID: "job"}
	look := func(want string, complete bool) {
		t.Helper()
		if secrets, all := l.secretsOf(a, []string{"PASSWORD"}); all != complete || secrets["PASSWORD"] != want {
			t.Errorf("%d secrets, complete: %v; want %v", len(secrets), all, complete)
		}
	}
	first := l.Hold("alice", "job", map[string]string{"PASSWORD": "one"})
	second := l.Hold("alice", "job", map[string]string{"PASSWORD": "two"})
	first()
	look("two", true)
	other := l.Hold("mallory", "job", map[string]string{"PASSWORD": "three"})
	second()
	look("", false)
	other()
	if len(l.secrets) != 0 {
		t.Errorf("%d secrets are left", len(l.secrets))
	}
}

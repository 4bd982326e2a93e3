package commit

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bursar/bursar/coordinator/store"
)

// A store that was in use and now refuses its coordinator is visible to all callers, without its
// address and without its server's message.
func TestAStoreThatRefusesIsNamedWithoutItsAddress(t *testing.T) {
	secret := "postgres://bursar@db.example.com/bursar"
	refused := func(reason store.Refusal, cause error) error {
		return &store.RefusedError{Where: secret, Reason: reason, Found: secret, Want: secret, Err: cause}
	}
	for want, err := range map[string]error{
		"the store is not accessible: the log says more":       refused(store.Denied, nil),
		"the store is another store: the log says more":        refused(store.OtherStore, nil),
		"the store is from a newer version: the log says more": fmt.Errorf("store: loading: %w", refused(store.Newer, nil)),
		store.ErrAway.Error() + ": the log says more":          refused(store.Denied, store.ErrAway),
	} {
		if got := shownFault(err).Error(); got != want || strings.Contains(got, secret) {
			t.Errorf("%v is shown as %q, want %q", err, got, want)
		}
	}
	if got := shownFault(errors.New(secret)).Error(); strings.Contains(got, secret) {
		t.Errorf("it is shown as %q", got)
	}
}

package election

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/discovery/consul"
)

// A coordinator knows whether Consul answers, the error if not, the age of its answer, and whether
// the coordinator holds the lock.
func TestTheStateOfConsulIsKnown(t *testing.T) {
	t.Parallel()
	front := inFrontOf(t, shared)
	c := newCandidate(t, front.URL, "a", brief, func(config *consul.Config, _ *Options) { config.Timeout = time.Second })
	term := c.leadKnownTo(t, c)
	eventually(t, func() bool { state := c.Consul(); return state.Fault == nil && state.Holds && !state.AsOf.IsZero() })
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"cut off":     {cutConnection, ErrConsulAway},
		"hung":        {neverAnswer, ErrConsulAway},
		"refused":     {respondWith(http.StatusForbidden, "text/plain", "Permission denied"), ErrConsulRefuses},
		"no leader":   {respondWith(http.StatusInternalServerError, "text/plain", "No cluster leader"), ErrConsulLeaderless},
		"not Consul":  {respondWith(http.StatusOK, "text/html", "<html>"), ErrConsulRefuses},
		"a server's":  {respondWith(http.StatusBadGateway, "text/plain", "secret"), ErrConsulAway},
		"another one": {respondWith(http.StatusNotFound, "text/plain", ""), ErrConsulRefuses},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // one after the other
			front.answerWith(test.answer)
			eventually(t, func() bool { return errors.Is(c.Consul().Fault, test.want) })
			eventually(t, func() bool { return !c.Consul().Holds })
			before := c.Consul().AsOf
			front.answerWith(nil)
			eventually(t, func() bool { state := c.Consul(); return state.Fault == nil && state.AsOf.After(before) })
		})
	}
	_ = term.Resign(t.Context())
}

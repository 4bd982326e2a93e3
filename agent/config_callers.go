package agent

import (
	"fmt"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// Defaults of CallersConfig.
const (
	DefaultCallerRate    = 50
	DefaultCallerBurst   = 200
	DefaultCallerWaiting = 64
)

const (
	// maxConns is how many connections one user may have open. Over HTTP/1.1 each request that waits has one.
	maxConns = 256
	// maxAllConns is how many all users together may have: one with a range of subordinate uids can be many users. A connection
	// takes some 20 KiB. Those of trusted callers are neither counted nor refused.
	maxAllConns = 4096
	// maxBodies is how many bytes of requests that are under way are held for one user, maxAllBodies for all: what they become when they are
	// read takes up to fourteen times as much memory. Requests have some hundred bytes; only a Launch with a large environment has more.
	maxBodies    = 4 << 20
	maxAllBodies = 16 << 20
)

// CallersConfig bounds what one user of the machine may ask of the agent; what is beyond it is refused with RESOURCE_EXHAUSTED. Trusted callers
// are not bound by it. All that call over LoopbackListen count as one user.
type CallersConfig struct {
	// Rate is how many requests a second a user may make in the long run. Confirm, Renew, Release, Cancel and Stop have as many again,
	// of their own. Default 50.
	Rate int `yaml:"rate"`
	// Burst is how many of them may come at once. Default 200.
	Burst int `yaml:"burst"`
	// Waiting is how many requests of a user may wait for resources at a time, watches and launches included. Default 64.
	Waiting int `yaml:"waiting"`
}

// limits are what that comes to.
func (c CallersConfig) limits() admission.Limits {
	return admission.Limits{
		Rate: c.Rate, Burst: c.Burst, Calls: c.Burst + c.Waiting, Waiting: c.Waiting,
		Bytes: maxBodies, AllBytes: maxAllBodies,
	}
}

// callerSettings are the settings that limits come from, by the reason of a refusal.
func callerSettings() map[string]string {
	return map[string]string{
		admission.TooFast: "callers.rate", admission.TooManyCalls: "callers.burst and callers.waiting", admission.TooManyWaiting: "callers.waiting",
	}
}

// settles reports whether a request, by its path, confirms, extends or gives back what was granted, which nobody is to be kept from by
// having asked for much. Each takes little: what it costs is bounded by a rate of its own.
func settles(path string) bool {
	switch path {
	case bursarv1connect.AllocationServiceConfirmProcedure, bursarv1connect.AllocationServiceRenewProcedure,
		bursarv1connect.AllocationServiceReleaseProcedure, bursarv1connect.AllocationServiceCancelProcedure,
		bursarv1connect.AllocationServiceStopProcedure:
		return true
	}
	return false
}

// connectionLimits are those of the callers' connections. One user can be as many as there are subordinate uids: of whoever has most one
// makes room where there are too many.
func connectionLimits() admission.ConnectionLimits {
	known, of := admission.Descriptors(maxAllConns, 1, 4)
	return admission.ConnectionLimits{Known: known, KnownOf: of, Caller: maxConns, First: headerTimeout}
}

// checkCallers fills in and checks the limits.
func (s *settings) checkCallers() error {
	c := &s.Callers
	c.Rate, c.Burst, c.Waiting = orDefault(c.Rate, DefaultCallerRate), orDefault(c.Burst, DefaultCallerBurst), orDefault(c.Waiting, DefaultCallerWaiting)
	for _, limit := range []struct {
		field string
		value int
	}{{"callers.rate", c.Rate}, {"callers.burst", c.Burst}, {"callers.waiting", c.Waiting}} {
		if limit.value < 1 || limit.value > 1_000_000 {
			return &ConfigError{limit.field, fmt.Sprint(limit.value), "1 to 1000000"}
		}
	}
	return nil
}

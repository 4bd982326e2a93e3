package agent

import (
	"context"
	"fmt"

	"github.com/bursar/bursar/agent/callers"
	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/osuser"
)

// Defaults of CallersConfig.
const (
	DefaultCallerRate    = 100
	DefaultCallerBurst   = 1000
	DefaultCallerWaiting = 1500
)

// CallersConfig bounds what one user of the machine may ask of the agent; what is beyond it is
// refused with RESOURCE_EXHAUSTED. Trusted callers are not bound by it. Callers over LoopbackListen
// count by the user who has opened the connection, apart from that user's calls over the socket.
type CallersConfig struct {
	// Rate is how many requests a second a user may make in the long run. Confirm, Renew, Release,
	// Cancel and Stop have a rate of their own, of the same size. Default 100.
	Rate int `yaml:"rate"`
	// Burst is how many of them may come at once. Default 1000: a shell that starts a thousand
	// jobs.
	Burst int `yaml:"burst"`
	// Waiting is how many requests of a user may wait for resources at a time, watches and
	// launches included; all users together may have three times as many. One takes some 45 KiB.
	// Default 1500.
	Waiting int `yaml:"waiting"`
}

// limits returns these bounds for the socket.
func (c CallersConfig) limits() admission.Limits {
	return socket.Limits(c.Rate, c.Burst, c.Waiting)
}

// callerSettings are the settings that limits come from, by the reason of a refusal.
func callerSettings() map[string]string {
	return map[string]string{
		admission.TooFast: "callers.rate", admission.TooManyCalls: "callers.burst and callers.waiting", admission.TooManyWaiting: "callers.waiting",
	}
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

// forCallers are the settings that the local API needs.
func (a *Agent) forCallers() callers.Settings {
	s := a.settings()
	return callers.Settings{
		HostID: s.HostID, Patience: s.Patience,
		MinUserID: s.Engines.MinUserID, SystemUsers: s.Engines.SystemUsers, BannedUsers: s.Engines.BannedUsers,
	}
}

// UnknownUsers returns those of TrustedUsers, by their place in the list, whose names the machine
// does not know. They are no error: an account may come later. It asks the machine's name service,
// and takes as long as that.
func (c Config) UnknownUsers(ctx context.Context) []int {
	return callers.UnknownUsers(ctx, c.TrustedUsers, osuser.Users{}.Named)
}

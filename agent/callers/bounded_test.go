package callers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A call without a deadline ends after the patience of the settings that are in force by then.
func TestACallWithoutADeadlineHasThePatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patience := 10 * time.Second
		s := newSubject(Options{Settings: func() Settings { return Settings{HostID: "h1", Patience: patience} }}, nil)
		for _, patience = range []time.Duration{10 * time.Second, time.Minute} {
			ctx, cancel := s.bounded(context.Background(), time.Hour)
			deadline, _ := ctx.Deadline()
			if got := time.Until(deadline); got != time.Hour+patience {
				t.Errorf("it ends after %s; want %s more than its wait of an hour", got, patience)
			}
			cancel()
		}
		own, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		ctx, end := s.bounded(own, time.Hour)
		defer end()
		if deadline, _ := ctx.Deadline(); time.Until(deadline) != time.Second {
			t.Errorf("a call with a deadline ends after %s", time.Until(deadline))
		}
	})
}

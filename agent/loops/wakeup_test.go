package loops

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestAlarmRingsAtTheEarliestMomentThatIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		a := NewWakeup(began.Add(time.Hour))
		a.Set(began.Add(time.Hour), began.Add(2*time.Second))
		go func() {
			time.Sleep(time.Second)
			a.NoLaterThan(began.Add(5 * time.Minute))
			a.NoLaterThan(began) // too early
			a.NoLaterThan(began.Add(10 * time.Minute))
		}()
		if !a.Wait(t.Context()) || time.Since(began) != 2*time.Second {
			t.Errorf("rang after %v, want 2 s", time.Since(began))
		}
		a.Set(time.Now().Add(time.Hour), time.Now())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if a.Wait(ctx) {
			t.Error("rang although its context has ended")
		}
	})
}

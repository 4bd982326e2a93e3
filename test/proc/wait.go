package proc

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// leastChecks is how many checks Eventually makes at least before it gives up. If it cannot make
// that many in the time, the machine is so busy that the condition has not had its time, either.
const leastChecks = 60

// mostFor is the time after which Await gives up even after fewer checks: a check that waits for a
// server's answer may take any time.
func mostFor(within time.Duration) time.Duration { return max(4*within, time.Minute) }

// Eventually calls check every so often until it returns no error, and returns how long that took.
// After the time limit, and after at least 60 checks or four times the limit (a minute at least),
// the test ends with the last error.
func Eventually(tb testing.TB, within, every time.Duration, what string, check func() error) time.Duration {
	tb.Helper()
	began := time.Now()
	if err := Await(within, every, what, check); err != nil {
		tb.Fatalf("%v", err)
	}
	return time.Since(began)
}

// Await checks like Eventually, but returns an error instead of ending the test. It may be called
// from any goroutine.
func Await(within, every time.Duration, what string, check func() error) error {
	began := time.Now()
	again := time.NewTicker(every)
	defer again.Stop()
	for checks := 1; ; checks++ {
		err := check()
		if err == nil {
			return nil
		}
		if took := time.Since(began); took > within && (checks > leastChecks || took > mostFor(within)) {
			return fmt.Errorf("%s: not within %s: %w", what, within, err)
		}
		<-again.C
	}
}

var errNotYet = errors.New("it is not so yet")

// Until waits like Eventually, until holds returns true.
func Until(tb testing.TB, within, every time.Duration, what string, holds func() bool) {
	tb.Helper()
	Eventually(tb, within, every, what, func() error {
		if holds() {
			return nil
		}
		return errNotYet
	})
}

// Always calls check every so often during that time, and ends the test at the first error.
func Always(tb testing.TB, during, every time.Duration, what string, check func() error) {
	tb.Helper()
	again := time.NewTicker(every)
	defer again.Stop()
	for began := time.Now(); time.Since(began) < during; <-again.C {
		if err := check(); err != nil {
			tb.Fatalf("%s: after %s: %v", what, time.Since(began).Round(time.Millisecond), err)
		}
	}
}

package election

import (
	"testing"
	"testing/synctest"
	"time"
)

func leaseOver(l *lease) bool {
	synctest.Wait()
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

func TestLeaseLastsFromTheStartOfTheLastRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := 0
		l := newLease(10*time.Second, time.Now().Add(-time.Second), func() { ended++ })
		// 1 s had gone, and a tenth is the margin: 8 s are left
		time.Sleep(7900 * time.Millisecond)
		if leaseOver(l) {
			t.Fatal("over too early")
		}
		if !l.renew(time.Now().Add(-2 * time.Second)) { // the call took 2 s
			t.Fatal("a renewal in time is none")
		}
		time.Sleep(6900 * time.Millisecond)
		if leaseOver(l) {
			t.Fatal("the renewal did not count in full")
		}
		time.Sleep(200 * time.Millisecond)
		if !leaseOver(l) || ended != 1 {
			t.Fatalf("not over after 9 s from the renewal's start; told %d times", ended)
		}
	})
}

func TestLeaseIsNotShortenedByAnOlderRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLease(10*time.Second, time.Now(), func() {})
		defer l.end()
		l.renew(time.Now().Add(-5 * time.Second))
		time.Sleep(8 * time.Second)
		if leaseOver(l) {
			t.Error("over too early")
		}
	})
}

func TestLeaseThatHasLapsedStaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := 0
		l := newLease(10*time.Second, time.Now().Add(-time.Minute), func() { ended++ })
		// A process that was stopped for a minute may run this first, before the timer's function
		// has run.
		if l.renew(time.Now()) {
			t.Error("a renewal brought it back")
		}
		if !leaseOver(l) {
			t.Error("it goes on")
		}
		l.end()
		l.end()
		if synctest.Wait(); ended != 1 {
			t.Errorf("told %d times: want once", ended)
		}
	})
}

func TestLeaseEndsAtOnceWhenItIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLease(10*time.Second, time.Now(), func() {})
		l.end()
		if !leaseOver(l) || l.renew(time.Now()) {
			t.Error("it goes on")
		}
	})
}

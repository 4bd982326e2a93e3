package admission_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/internal/admission"
)

// Many callers at the same time cost as little as few, and each gets an answer that was made after
// its call.
func TestReadingIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		value, runs := 0, 0 // the reading's alone while it runs
		release := make(chan struct{})
		look := admission.Share(func() (int, error) {
			runs++
			got := value
			<-release
			return got, nil
		})
		var all sync.WaitGroup
		all.Go(func() { _, _ = look() })
		synctest.Wait()
		value = 1
		for range 50 {
			all.Go(func() {
				if got, err := look(); err != nil || got != 1 {
					t.Errorf("%d, %v: want what is so since", got, err)
				}
			})
		}
		synctest.Wait()
		close(release)
		all.Wait()
		if runs != 2 {
			t.Errorf("it was read %d times for 51 who asked", runs)
		}
	})
}

// A reading that panics has no answer for any caller.
func TestReadingThatPanicsIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		look := admission.Share(func() (int, error) { <-release; panic("it fails") })
		var all sync.WaitGroup
		var panicked, failed atomic.Int64
		ask := func() {
			all.Go(func() {
				defer func() {
					if recover() != nil {
						panicked.Add(1)
					}
				}()
				if _, err := look(); err != nil {
					failed.Add(1)
				}
			})
			synctest.Wait()
		}
		ask() // reads
		ask() // is to read next
		ask() // shares that
		close(release)
		all.Wait()
		if panicked.Load() != 2 || failed.Load() != 1 {
			t.Errorf("%d panicked and %d were told: want two, and one", panicked.Load(), failed.Load())
		}
	})
}

// A caller that repeats its request at once, for any time, uses a fifth of a core and not all of
// one; after a long reading no caller waits for more than a second.
func TestReadingRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := 10 * time.Millisecond
		reading := time.Duration(0)
		look := admission.Share(func() (int, error) {
			time.Sleep(took)
			reading += took
			return 0, nil
		})
		for began := time.Now(); time.Since(began) < 10*time.Second; {
			if _, err := look(); err != nil {
				t.Fatal(err)
			}
		}
		if reading < 1900*time.Millisecond || reading > 2100*time.Millisecond {
			t.Errorf("%s of ten seconds were spent reading", reading)
		}
		took = time.Minute
		_, _ = look()
		took = 0
		began := time.Now()
		if _, _ = look(); time.Since(began) != time.Second {
			t.Errorf("after a long reading the next came after %s", time.Since(began))
		}
	})
}

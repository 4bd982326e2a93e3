package regularfile_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/internal/regularfile"
)

// A hanging file blocks one thread, however many calls read it, and no call longer than its time
// limit. Once the file answers, calls read it again.
func TestAFileThatHangsHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 5 * time.Second
		answers := make(chan struct{})
		var started atomic.Int64
		read := func() (string, error) {
			return regularfile.Within(t.Name(), most, func(reads func(string)) (string, error) {
				started.Add(1)
				reads("/nfs/pass")
				<-answers
				return "content", nil
			})
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				for range 3 {
					began := time.Now()
					got, err := read()
					hangs, is := errors.AsType[*regularfile.HangError](err)
					if !is || hangs.Path != "/nfs/pass" || got != "" || time.Since(began) != most {
						t.Errorf("%q, %v after %v", got, err, time.Since(began))
					}
				}
			})
		}
		all.Wait()
		if n := started.Load(); n != 1 {
			t.Errorf("%d threads hang: want 1", n)
		}
		close(answers)
		synctest.Wait()
		if got, err := read(); got != "content" || err != nil || started.Load() != 2 {
			t.Errorf("%q, %v, read %d times", got, err, started.Load())
		}
	})
}

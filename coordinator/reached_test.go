package coordinator

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// A leader that hears of nobody for long gives the lead to others that are there, each time later
// if nobody has called in between.
func TestALeaderThatNobodyReachesGivesTheLeadAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peers := 1
		r := &reached{peers: func() int { return peers }}
		served := r.count(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		call := func(path string) {
			served.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, http.NoBody))
		}
		check := func(when string, since time.Time, want bool) {
			t.Helper()
			if got := r.unreached(since); got != want {
				t.Errorf("%s: unreached=%v, want %v", when, got, want)
			}
		}
		began := time.Now()
		time.Sleep(unreachedAfter - time.Second)
		check("soon after it began", began, false)
		call("/bursar.v1.ClusterService/Status")
		time.Sleep(unreachedAfter - time.Second)
		check("soon after a call", began, false)
		call("/metrics") // from its own machine
		time.Sleep(2 * time.Second)
		peers = 0
		check("without others", began, false)
		peers = 1
		check("long after the last call", began, true)
		again := time.Now()
		time.Sleep(unreachedAfter + time.Second)
		check("it leads again, and nobody has called", again, false)
		time.Sleep(unreachedAfter)
		check("and still nobody has", again, true)
		call("/bursar.v1.HostService/Sync")
		time.Sleep(unreachedAfter + time.Second)
		check("after a call it is as at first", again, true)
	})
}

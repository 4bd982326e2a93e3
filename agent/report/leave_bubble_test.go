package report

import (
	"testing"
	"testing/synctest"
	"time"
)

// An agent ends soon although its coordinator does not answer the last report: a service manager
// waits for it, and so does the shutdown of a machine.
func TestAnAgentEndsSoonWithoutItsCoordinator(t *testing.T) {
	for name, test := range map[string]struct {
		silent, most time.Duration
	}{
		"that has answered the last report": {0, time.Second},
		"that has not":                      {time.Minute, 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			p := &heartbeatServer{interval: 5 * time.Second}
			beat(t, p, func(r *Reporter) {
				time.Sleep(time.Minute)
				p.hangFromNow()
				time.Sleep(test.silent)
				synctest.Wait()
				before, began := p.calls(), time.Now()
				r.Leave()
				if took := time.Since(began); took > test.most {
					t.Errorf("it took %s, want %s at most", took, test.most)
				}
				if p.calls() == before {
					t.Error("it did not try")
				}
			})
		})
	}
}

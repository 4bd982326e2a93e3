package commit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestTheBooksAreAuditedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runLoop(t, NewMemoryStore(), nil)
		defer d.Close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			AuditRegularly(ctx, d.Loop)
		}()
		time.Sleep(10*auditEvery + time.Second)
		cancel()
		<-ended
		if n := counterValue(t, d.Metrics.audits); n != 10 {
			t.Errorf("%v audits in ten minutes: want 10", n)
		}
	})
}

func counterValue(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

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
		if n := metricValue(t, d.Metrics.audits); n != 10 {
			t.Errorf("%v audits in ten minutes: want 10", n)
		}
	})
}

// metricValue returns the value of a counter or a gauge.
func metricValue(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := families[0].GetMetric()[0]
	return shown.GetCounter().GetValue() + shown.GetGauge().GetValue()
}

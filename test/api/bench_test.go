package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/coordinator"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// BenchmarkTraces is a call that goes through the loop and waits for its commit, here an Explain,
// with rows in memory: without traces, with traces of which none is recorded, and with all of
// them.
func BenchmarkTraces(b *testing.B) {
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer collector.Close()
	for _, kind := range []string{"off", "none", "all"} {
		b.Run(kind, func(b *testing.B) {
			if kind != "off" {
				b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
				b.Setenv("OTEL_TRACES_SAMPLER", map[string]string{"none": "always_off", "all": "always_on"}[kind])
			}
			launcher, err := client.New(startTeam(b, coordinator.Config{}).leader)
			if err != nil {
				b.Fatal(err)
			}
			defer launcher.Close()
			calls := launcher.Allocations()
			memory := int64(1)
			ask := func() error {
				_, err := calls.Explain(b.Context(), &bursarv1.ExplainRequest{Request: &bursarv1.AllocateRequest{
					Labels: map[string]string{"user": "alice"}, Resource: &bursarv1.Resource{MemoryBytes: &memory},
				}})
				return err
			}
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(run *testing.PB) {
				for run.Next() {
					if err := ask(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

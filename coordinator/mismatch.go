package coordinator

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// mismatch keeps why this coordinator does not stand for election though it works: the cluster's
// store is another than its own. It is not ready then, and says so, until that is mended. It may
// be used by many goroutines.
type mismatch struct {
	err   atomic.Pointer[error] // nil: there is none
	gauge prometheus.Gauge
}

func newMismatch(r prometheus.Registerer) *mismatch {
	m := &mismatch{gauge: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "bursar_store_mismatch",
		Help: "1 while Consul says that the cluster's store is another than this coordinator's, which then does not stand for election.",
	})}
	r.MustRegister(m.gauge)
	return m
}

// set takes what an election finds; nil: there is nothing wrong.
func (m *mismatch) set(err error) {
	if err == nil {
		m.err.Store(nil)
		m.gauge.Set(0)
		return
	}
	m.err.Store(&err)
	m.gauge.Set(1)
}

func (m *mismatch) get() error {
	if err := m.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (m *mismatch) warnings() []string {
	if err := m.get(); err != nil {
		return []string{"does not stand for election: " + err.Error()}
	}
	return nil
}

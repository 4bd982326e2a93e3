package coordinator

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// mismatch holds the reason why a working coordinator does not stand for election: its store is not
// the cluster's. Until that is mended, the coordinator is not ready and says so. Many goroutines
// may use it.
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

// set stores the election's finding; nil: the store is the cluster's.
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

// sharedService holds the fault that another cluster's coordinators are registered in Consul under
// this cluster's service name. Many goroutines may use it.
type sharedService struct {
	err    atomic.Pointer[error] // nil: there are none
	yields atomic.Bool           // this coordinator does not serve meanwhile
	gauge  prometheus.Gauge
}

func newSharedService(r prometheus.Registerer) *sharedService {
	s := &sharedService{gauge: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "bursar_service_shared",
		Help: "1 while coordinators of another cluster are registered in Consul by the name of this one's service (consul.service).",
	})}
	r.MustRegister(s.gauge)
	return s
}

// set stores the election's finding; nil: there is no other cluster.
func (s *sharedService) set(err error, yields bool) {
	s.yields.Store(yields)
	if err == nil {
		s.err.Store(nil)
		s.gauge.Set(0)
		return
	}
	s.err.Store(&err)
	s.gauge.Set(1)
}

// refusal returns why this coordinator does not serve; nil if it may.
func (s *sharedService) refusal() error {
	if err := s.err.Load(); err != nil && s.yields.Load() {
		return *err
	}
	return nil
}

func (s *sharedService) warnings() []string {
	err := s.err.Load()
	switch {
	case err == nil:
		return nil
	case s.yields.Load():
		return []string{"does not serve: " + (*err).Error()}
	default:
		return []string{(*err).Error()}
	}
}

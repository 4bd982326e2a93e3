package coordinator

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/coordinator/election"
)

// consulState reports the election's state of Consul in metrics and to callers. Without an election
// through Consul it reports nothing. Many goroutines may use it.
type consulState struct {
	known atomic.Pointer[func() election.ConsulState]

	up, age, held *prometheus.Desc
}

func newConsulState(r prometheus.Registerer) *consulState {
	describe := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("bursar_consul_"+name, help, nil, nil)
	}
	s := &consulState{
		up:   describe("up", "1 while Consul answers the question of this coordinator who leads."),
		age:  describe("index_age_seconds", "How old Consul's latest answer to that question is. Consul answers at least every 5 s. No value: it has not answered yet."),
		held: describe("lock_held", "1 while this coordinator holds Consul's lock of the leader, by its own clock."),
	}
	r.MustRegister(s)
	return s
}

// watch attaches the election if it uses Consul.
func (s *consulState) watch(e election.Election) {
	if asks, knows := e.(interface{ Consul() election.ConsulState }); knows {
		s.known.Store(new(asks.Consul))
	}
}

// fault returns why Consul elects no leader; nil if it can, or if Consul is not used.
func (s *consulState) fault() error {
	if state := s.known.Load(); state != nil {
		return (*state)().Fault
	}
	return nil
}

// because adds Consul's fault, if there is one, to an error about the leader.
func (s *consulState) because(err error) error {
	if fault := s.fault(); fault != nil && err != nil {
		return fmt.Errorf("%w: %w", err, fault)
	}
	return err
}

// Describe implements prometheus.Collector.
func (s *consulState) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.up, s.age, s.held} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *consulState) Collect(to chan<- prometheus.Metric) {
	known := s.known.Load()
	if known == nil {
		return
	}
	state := (*known)()
	flag := func(d *prometheus.Desc, set bool) {
		value := 0.0
		if set {
			value = 1
		}
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
	}
	flag(s.up, state.Fault == nil && !state.AsOf.IsZero())
	flag(s.held, state.Holds)
	if !state.AsOf.IsZero() {
		to <- prometheus.MustNewConstMetric(s.age, prometheus.GaugeValue, time.Since(state.AsOf).Seconds())
	}
}

package election

import (
	"errors"
	"strings"
	"time"

	"github.com/bursar/bursar/internal/discovery/consul"
)

// ConsulState is the state of Consul as this coordinator sees it. It contains no address and no
// text of Consul, because every caller may read it.
type ConsulState struct {
	// Fault is why Consul does not name the leader; nil: it does, or was not asked yet.
	Fault error
	// AsOf is the time of Consul's latest answer: its arrival, less the time since the answering
	// server last heard from Consul's leader. It is zero before the first answer.
	AsOf time.Time
	// Holds: this coordinator holds the lock, by its own clock.
	Holds bool
}

var (
	// ErrConsulAway says that Consul does not answer a coordinator.
	ErrConsulAway = errors.New("Consul does not answer this coordinator: until it does, no coordinator can be elected; the log says more")
	// ErrConsulRefuses says that Consul refuses a coordinator's token, that its certificate is not
	// trusted, or that another service answers at its address.
	ErrConsulRefuses = errors.New("Consul refuses this coordinator (token, certificate, or address): it cannot be elected; the log says more")
	// ErrConsulLeaderless says that Consul's servers have no leader.
	ErrConsulLeaderless = errors.New("Consul has no leader among its own servers: until it has, no coordinator can be elected")
)

// Consul returns the state of Consul, as of the latest query for the leader.
func (e *ConsulElection) Consul() ConsulState {
	e.mu.Lock()
	defer e.mu.Unlock()
	return ConsulState{Fault: e.fault, AsOf: e.asOf, Holds: e.term != nil && !e.term.isOver()}
}

// shownFault returns the part of a Consul error that every caller may read.
func shownFault(err error) error {
	switch {
	case errors.Is(err, consul.ErrNoLeader), strings.Contains(err.Error(), "No cluster leader"): // its text
		return ErrConsulLeaderless
	case consul.Refused(err):
		return ErrConsulRefuses
	}
	return ErrConsulAway
}

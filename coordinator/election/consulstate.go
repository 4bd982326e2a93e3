package election

import (
	"errors"
	"strings"
	"time"

	"github.com/bursar/bursar/internal/discovery/consul"
)

// ConsulState is the state of Consul as a coordinator finds it. It has no address, and no words of
// Consul's: anybody may read it.
type ConsulState struct {
	// Fault is why Consul does not say who leads; nil: it does, or was not asked yet.
	Fault error
	// AsOf is the time that Consul's latest answer is of: when it came, less the time for which
	// the server that gave it had not heard from Consul's leader. It is zero before the first one.
	AsOf time.Time
	// Holds: this coordinator holds the lock, by its own clock.
	Holds bool
}

var (
	// ErrConsulAway says that Consul does not answer a coordinator.
	ErrConsulAway = errors.New("Consul does not answer this coordinator: until it does, no coordinator can be elected; the log says more")
	// ErrConsulRefuses says that Consul refuses a coordinator's token, that its certificate is not
	// trusted, or that something else answers at its address.
	ErrConsulRefuses = errors.New("Consul refuses this coordinator (token, certificate, or address): it cannot be elected; the log says more")
	// ErrConsulLeaderless says that no server of Consul leads the others.
	ErrConsulLeaderless = errors.New("Consul has no leader among its own servers: until it has, no coordinator can be elected")
)

// Consul returns the state of Consul, as the latest question for the leader found it.
func (e *ConsulElection) Consul() ConsulState {
	e.mu.Lock()
	defer e.mu.Unlock()
	return ConsulState{Fault: e.fault, AsOf: e.asOf, Holds: e.term != nil && !e.term.isOver()}
}

// shownFault is the part of an error of Consul that anybody may read.
func shownFault(err error) error {
	switch {
	case errors.Is(err, consul.ErrNoLeader), strings.Contains(err.Error(), "No cluster leader"): // as its servers say it
		return ErrConsulLeaderless
	case consul.Refused(err):
		return ErrConsulRefuses
	}
	return ErrConsulAway
}

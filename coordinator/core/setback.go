package core

import "fmt"

// Setback is the evidence that the store went back in time before this leadership began: a database
// was restored from a backup, or failed over to a replica that lacked commits. Hosts and clients
// learn a revision only after it is durable, so they can know a later one than the store only if
// the store lost it.
type Setback struct {
	// Revision is that of the ledger when the leadership began.
	Revision uint64
	// Seen is the highest revision that a host knows; 0: none is above Revision.
	Seen uint64
	// Hosts is how many hosts know a revision above Revision, Host the first of them.
	Hosts int
	Host  string
	// Adopted is how many engines unknown to the ledger these hosts have reported since.
	Adopted int
	// Watches is how many watches began after a revision that the ledger had not reached. Any
	// client can send such a number, so it proves less than the report of a host.
	Watches int
}

// Warning warns an operator of the setback. It is empty if there is no evidence.
func (s *Setback) Warning() (list []string) {
	if s.Hosts > 0 {
		list = append(list, fmt.Sprintf("the store went back in time: revision %d was acknowledged, and this leadership began with %d"+
			"; hosts that know a later revision: %d (such as %s), engines adopted from them: %d", s.Seen, s.Revision, s.Hosts, s.Host, s.Adopted))
	}
	if s.Watches > 0 {
		list = append(list, fmt.Sprintf("watches of clients that know a later revision than this coordinator: %d; "+
			"they come from another cluster, or the store went back in time", s.Watches))
	}
	return list
}

// setback collects the evidence of one leadership.
type setback struct {
	Setback

	hosts map[string]bool // the hosts that know a later revision
}

// observeRevision takes the revision that a host knows from an earlier leadership. It returns the
// evidence if this host is the first to give any.
func (s *setback) observeRevision(host string, seen uint64) (first *Setback) {
	if seen <= s.Revision || s.hosts[host] {
		return nil
	}
	s.hosts[host] = true
	s.Seen = max(s.Seen, seen)
	if s.Hosts++; s.Hosts > 1 {
		return nil
	}
	s.Host = host
	evidence := s.Setback
	return &evidence
}

// observeAdopted counts the engines that were adopted from a report.
func (s *setback) observeAdopted(host string, engines int) {
	if s.hosts[host] {
		s.Adopted += engines
	}
}

// ObserveWatch takes the revision after which a client wants to continue a watch.
func (c *Core) ObserveWatch(after uint64) {
	if c.ledger == nil || after <= c.ledger.Revision() {
		return
	}
	c.setback.Watches++
}

// Setback is the evidence that the store went back in time before this leadership.
func (c *Core) Setback() Setback { return c.setback.Setback }

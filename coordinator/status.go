package coordinator

import (
	"context"
	"fmt"
	"slices"
)

// Live reports whether the loop runs. Every call goes through the loop. The state of the store does
// not matter: the loop waits for an unreachable store, and gives up the lead if that takes long.
// Live waits a few seconds for an answer at most.
func (s *Server) Live(ctx context.Context) error { return s.loop.Alive(ctx) }

// Status returns one line with the coordinator's role and the number of its warnings.
func (s *Server) Status() string {
	known, _ := s.peers.Leader()
	status := "stands by: no leader is known, calls wait"
	switch {
	case s.loop.Leading():
		status = "leads"
	case known.URL != "":
		status = "stands by: " + known.URL + " leads"
	}
	if n := len(s.warnings()); n > 0 {
		status += fmt.Sprintf("; warnings: %d (bursar status)", n)
	}
	return status
}

// warnings returns the current warnings.
func (s *Server) warnings() []string {
	list := slices.Concat(s.mismatch.warnings(), s.guard.Warnings(), s.shared.warnings(), s.seen.warnings(), s.trust.warnings(), s.audit.Warnings(), s.loop.HistoryWarnings(), s.files.warnings(), s.pollers.Warnings())
	list = append(list, s.loop.HiddenProviders()...)
	list = append(list, s.loop.FaultWarnings()...)
	list = append(list, s.loop.HiddenRules()...)
	list = append(list, s.loop.UndeclaredDimensions()...)
	route := s.peers.Route()
	for _, err := range []error{route.Fault, route.Unreached} {
		if err != nil {
			list = append(list, err.Error())
		}
	}
	if why := s.loop.Unled(); why != nil && route.URL == "" {
		list = append(list, "this coordinator does not lead: "+why.Error())
	}
	if fault := s.consul.fault(); fault != nil {
		list = append(list, fault.Error())
	}
	return list
}

// unled returns the fault of Consul or the store because of which this coordinator does not lead.
// Without Consul it does not try to lead, so a fault of the store may be an earlier one.
func (s *Server) unled() error {
	if s.loop.Leading() {
		return nil
	}
	if fault := s.consul.fault(); fault != nil {
		return fault
	}
	return s.loop.Unled()
}

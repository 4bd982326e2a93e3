package coordinator

import (
	"context"
	"fmt"
)

// Live reports whether the loop runs, through which every call goes, whatever the store does. The
// loop waits for a store that is away, and gives up the lead if that takes long. Live waits a few
// seconds for an answer at most.
func (s *Server) Live(ctx context.Context) error { return s.loop.Alive(ctx) }

// Status says in one line what matters now; it changes when that does.
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

package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/pause"
)

const (
	// returnPatience is how long a call about an engine waits for a host that is suspect: its agent
	// may just be connecting again.
	returnPatience = 2 * time.Second
	// returnEvery is how often it looks.
	returnEvery = 100 * time.Millisecond
)

// awayError says that a host's agent is not there to carry out an order. Nothing was sent.
type awayError struct {
	Host string
	// State is Suspect, LostHost, ExpectedHost, or 0 for a host that is not known.
	State ledger.HostState
	// Silent is for how long nothing was heard of its agent; 0: it was never heard of.
	Silent time.Duration
}

func (e *awayError) Error() string {
	text := "host " + e.Host + " is not known any more"
	if e.State != 0 {
		text = fmt.Sprintf("host %s is %s", e.Host, e.State)
	}
	if e.Silent > 0 {
		text += fmt.Sprintf(": its agent was last heard of %s ago", e.Silent.Round(time.Second))
	}
	return text
}

// awaitHost returns when the agent of a host can be expected to take an order. The error is an
// *awayError if the host is suspect, and stays so for a moment, or is lost. After a change of
// leader hosts come back: they are expected to.
func (s *engineService) awaitHost(ctx context.Context, host string) error {
	for end := time.Now().Add(returnPatience); ; {
		away := &awayError{Host: host}
		err := s.allocations.loop.Do(ctx, func(book *ledger.Ledger, now ledger.Instant) {
			info, known := book.Host(host)
			if !known {
				return
			}
			if away.State = info.State; info.LastSync != 0 {
				away.Silent = now.Sub(info.LastSync)
			}
		})
		switch {
		case err != nil:
			return err
		case away.State == ledger.Healthy, away.State == ledger.Returning:
			return nil
		case away.State != ledger.Suspect, !time.Now().Before(end):
			return away
		}
		if !pause.For(returnEvery, ctx.Done(), nil) {
			return ctx.Err()
		}
	}
}

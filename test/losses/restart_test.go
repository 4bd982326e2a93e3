package losses

import (
	"testing"
)

// An agent that is killed leaves engines and the ledger alone. The next one takes all of them over,
// and reports how those ended that have ended in between.
func TestAgentIsKilled(t *testing.T) {
	t.Parallel()
	p := startPlace(t, settings{})
	engines := p.three("")
	going := p.launched("ending")
	p.right(append(engines, going))

	p.agent.Kill()
	going.end(7, "the disk is on fire")
	always(t, 2*tick, "while no agent is there", func() error { return undisturbed(engines) })
	p.startAgent()
	p.endedWith(going, 7, "exit code 7\nabout to end\nthe disk is on fire")
	p.right(engines)

	// Twice in a row, without a heartbeat in between.
	p.agent.Kill()
	p.newAgent().Kill()
	p.startAgent()
	p.right(engines)
	launched, ran, confirmed := engines[0], engines[1], engines[2]
	launched.end(3, "the second time")
	p.endedWith(launched, 3, "the second time")
	ran.end(4, "")
	if code := ran.run.Wait(patience); code != 4 {
		t.Errorf("bursar run ended with %d", code)
	}
	p.endedWith(ran, 4)
	confirmed.end(5, "")
	p.ended(confirmed)
	p.right(nil)
}

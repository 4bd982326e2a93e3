package losses

import (
	"path/filepath"
	"strings"
	"testing"
)

// Two agents for one host are a mistake that is noticed: the older one ends and says why. Engines
// go on, and belong to the newer one.
func TestTwoAgentsAreOneHost(t *testing.T) {
	t.Parallel()
	p := startPlace(t, settings{})
	engines := p.three("")
	p.right(engines)
	older := p.agent
	p.socket = filepath.Join(p.dir, "second.sock")
	p.local = p.client(p.socket)
	p.write("agent.yaml", p.agentConfig(p.socket, filepath.Join(p.dir, "second"), "  cgroups: none\n  logDir: "+filepath.Join(p.dir, "logs")+"\n"))
	p.startAgent()
	// Its service manager does not start it again: the two would displace each other for ever.
	if code := older.Wait(patience); code != 78 {
		t.Errorf("the older one ended with %d; want 78", code)
	}
	if text := older.Output.String(); !strings.Contains(text, "another agent has taken over this host") {
		t.Errorf("it says %s", text)
	}
	p.right(engines)
	always(t, 3*tick, "with the newer one", func() error { return undisturbed(engines) })
	for _, e := range engines {
		e.end(5, "of the older one")
		p.ended(e)
	}
	p.right([]*engine{})
	// A second agent with the same state is refused at once, and the first goes on.
	p.write("agent.yaml", p.agentConfig(filepath.Join(p.dir, "third.sock"), filepath.Join(p.dir, "second"), "  cgroups: none\n"))
	third := p.newAgent()
	if code := third.Wait(patience); code == 0 {
		t.Error("a second agent on one state directory ended with 0")
	}
	if text := third.Output.String(); !strings.Contains(text, "another agent uses it") {
		t.Errorf("it says %s", text)
	}
	if !p.agent.Running() {
		t.Error("the first has ended")
	}
	p.right(nil)
}

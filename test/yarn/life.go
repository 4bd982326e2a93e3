package yarn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// run runs a command to its end and returns what it said.
func run(ctx context.Context, command *exec.Cmd) (string, error) {
	var said strings.Builder
	command.Stdout, command.Stderr = &said, &said
	if err := command.Start(); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Kill() })
	defer stop()
	err := command.Wait()
	return said.String(), errors.Join(err, ctx.Err())
}

// ready waits until a ResourceManager answers over HTTP, whatever it says.
func (m *Manager) ready(ctx context.Context) error {
	ctx, cancel := m.whileRunning(ctx)
	defer cancel()
	return until(ctx, func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.URL+"/ws/v1/cluster/info", http.NoBody)
		if err != nil {
			return err
		}
		response, err := (&http.Transport{DisableKeepAlives: true, TLSClientConfig: m.tls}).RoundTrip(r)
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
}

// active waits until a ResourceManager that is alone takes part: it answers before that, and even
// has nodes. Its log says it to everybody.
func (m *Manager) active(ctx context.Context) error {
	return until(ctx, func(context.Context) error {
		if !m.said("Transitioned to active state") {
			return fmt.Errorf("%s is not active", m.Name)
		}
		return nil
	})
}

// joined waits until a node has come to the ResourceManager. With a KDC the node's own log has to
// say it.
func (c *Cluster) joined(ctx context.Context, nm *NodeManager) error {
	ctx, cancel := nm.whileRunning(ctx)
	defer cancel()
	return until(ctx, func(ctx context.Context) error {
		if c.options.KDC != nil {
			if !nm.said("Registered with ResourceManager") {
				return fmt.Errorf("%s has not joined", nm.ID)
			}
			return nil
		}
		var answer struct {
			Node struct{ State string }
		}
		if err := c.ask(ctx, http.MethodGet, "nodes/"+nm.ID, User, nil, &answer); err != nil {
			return err
		}
		if answer.Node.State != "RUNNING" {
			return fmt.Errorf("%s is %s", nm.ID, answer.Node.State)
		}
		return nil
	})
}

// MakeActive makes a ResourceManager of a pair the active one. The other must stand by, or be
// down.
func (c *Cluster) MakeActive(tb testing.TB, name string) {
	tb.Helper()
	// Otherwise it asks the other one first, and does nothing if that one is down.
	c.transition(tb, "-transitionToActive", "--forceactive", name)
}

// MakeStandby has the active ResourceManager of a pair stand by.
func (c *Cluster) MakeStandby(tb testing.TB, name string) {
	tb.Helper()
	c.transition(tb, "-transitionToStandby", name)
}

func (c *Cluster) transition(tb testing.TB, arguments ...string) {
	tb.Helper()
	if err := c.admin(tb.Context(), arguments...); err != nil {
		tb.Fatal(err)
	}
}

// AwaitNodes waits until all nodes that run have come to the active ResourceManager.
func (c *Cluster) AwaitNodes(tb testing.TB) {
	tb.Helper()
	for _, nm := range c.Nodes {
		if err := c.joined(tb.Context(), nm); err != nil {
			tb.Fatal(err)
		}
	}
}

// KillManager ends a ResourceManager as a crash does.
func (c *Cluster) KillManager(tb testing.TB, name string) {
	tb.Helper()
	c.manager(tb, name).kill()
}

// StartManager starts a ResourceManager again, at the address that it had. Of a pair it stands by
// then; alone it has forgotten all applications.
func (c *Cluster) StartManager(tb testing.TB, name string) {
	tb.Helper()
	rm := c.manager(tb, name)
	end, err := begin(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	defer end()
	if err := rm.start(); err != nil {
		tb.Fatal(err)
	}
	err = rm.ready(tb.Context())
	if err == nil && !c.options.Pair {
		err = rm.active(tb.Context())
	}
	if err != nil {
		tb.Fatalf("%v\n%s", err, rm.tail())
	}
}

// Restart ends a ResourceManager that is alone and starts it with other queues: those of the
// CapacityScheduler or, if fair is not empty, of the FairScheduler, as in Options. It has forgotten
// all applications, and their containers end. Its nodes start again, too, and it waits until they
// have come: a NodeManager that goes on registers again, and may be silent after that.
func (c *Cluster) Restart(tb testing.TB, capacity map[string]string, fair string) {
	tb.Helper()
	c.options.Capacity, c.options.Fair = capacity, fair
	for i := range c.Nodes {
		c.StopNode(tb, i)
	}
	c.KillManager(tb, c.Managers[0].Name)
	if err := c.configureManagers(); err != nil {
		tb.Fatal(err)
	}
	c.StartManager(tb, c.Managers[0].Name)
	for i := range c.Nodes {
		c.StartNode(tb, i)
	}
	c.AwaitNodes(tb)
}

// StopNode ends a NodeManager as an operator does: it takes its leave of the active
// ResourceManager, which must be there, and its containers end.
func (c *Cluster) StopNode(tb testing.TB, i int) {
	tb.Helper()
	if err := c.Nodes[i].stop(); err != nil {
		tb.Fatal(err)
	}
}

// KillNode ends a NodeManager as a crash does. The ResourceManager goes on believing in it for
// twenty seconds.
func (c *Cluster) KillNode(tb testing.TB, i int) {
	tb.Helper()
	c.Nodes[i].kill()
}

// StartNode starts a NodeManager again, under the id that it had. It does not wait for it to join:
// see AwaitNodes.
func (c *Cluster) StartNode(tb testing.TB, i int) {
	tb.Helper()
	if err := c.Nodes[i].start(); err != nil {
		tb.Fatal(err)
	}
}

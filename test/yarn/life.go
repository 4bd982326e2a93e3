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

// run runs a command to its end and returns its output.
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

// ready waits until a ResourceManager answers over HTTP, with any answer.
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

// active waits until a single ResourceManager is active: it answers earlier, and even has nodes.
// Its log shows it in every configuration.
func (m *Manager) active(ctx context.Context) error {
	return until(ctx, func(context.Context) error {
		if !m.said("Transitioned to active state") {
			return fmt.Errorf("%s is not active", m.Name)
		}
		return nil
	})
}

// joined waits until a node has registered with the ResourceManager. With a KDC it looks at the
// node's own log.
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

// MakeActive makes a ResourceManager of a pair active. The other one must be standby, or down.
func (c *Cluster) MakeActive(tb testing.TB, name string) {
	tb.Helper()
	// Otherwise it asks the other one first, and does nothing if that one is down.
	c.transition(tb, "-transitionToActive", "--forceactive", name)
}

// MakeStandby makes the active ResourceManager of a pair standby.
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

// AwaitNodes waits until all running nodes have registered with the active ResourceManager.
func (c *Cluster) AwaitNodes(tb testing.TB) {
	tb.Helper()
	for _, nm := range c.Nodes {
		if err := c.joined(tb.Context(), nm); err != nil {
			tb.Fatal(err)
		}
	}
}

// KillManager ends a ResourceManager like a crash.
func (c *Cluster) KillManager(tb testing.TB, name string) {
	tb.Helper()
	c.manager(tb, name).kill()
}

// StartManager starts a ResourceManager again, at the same address. In a pair it is then standby; a
// single one has forgotten all applications.
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

// Restart ends a single ResourceManager and starts it with other queues: those of the
// CapacityScheduler or, if fair is not empty, of the FairScheduler, as in Options. It forgets all
// applications, and their containers end. Restart also restarts its nodes and waits for them: a
// NodeManager that keeps running registers again, but may stay silent after that.
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

// StopNode ends a NodeManager like an operator: it deregisters from the active ResourceManager,
// which must be up, and its containers end.
func (c *Cluster) StopNode(tb testing.TB, i int) {
	tb.Helper()
	if err := c.Nodes[i].stop(); err != nil {
		tb.Fatal(err)
	}
}

// KillNode ends a NodeManager like a crash. The ResourceManager counts it for twenty more seconds.
func (c *Cluster) KillNode(tb testing.TB, i int) {
	tb.Helper()
	c.Nodes[i].kill()
}

// StartNode starts a NodeManager again, with the same id. It does not wait for the node to join:
// see AwaitNodes.
func (c *Cluster) StartNode(tb testing.TB, i int) {
	tb.Helper()
	if err := c.Nodes[i].start(); err != nil {
		tb.Fatal(err)
	}
}

package chaos

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestWrongConfigurationIsRefusedAtItsPlace: exit code 78, with the file, the line and what would
// be right.
func TestWrongConfigurationIsRefusedAtItsPlace(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{})
	for n, test := range []struct{ server, content, place, says string }{
		{"coordinator", "dataDir: /tmp\nlistenOn: 127.0.0.1:1\n", "2:1", "listenOn: unknown field: want listen"},
		{"coordinator", "times:\n  interval: 1s\n  lostafter: 5m\n", "3:3", "lostafter: unknown field"},
		{"coordinator", "times:\n  interval: fast\n", "2:13", `"fast": want a duration`},
		{"coordinator", "# all\nlisten: 0.0.0.0:7070\n", "2:9", "or a loopback address"},
		{"coordinator", "placement: best\n", "1:12", `want "spread" or "binpack"`},
		{"coordinator", "limits:\n  queue: many\n", "2:10", `"many": want a whole number`},
		{"agent", "hostId: a\nsokcet: /tmp/a.sock\n", "2:1", "sokcet: unknown field: want"},
		{"agent", "hostId: a\ntick: 1ms\n", "2:7", "want 100ms to 1m"},
		{"agent", "hostId: a/b\n", "1:9", "want a letter or digit"},
		{"agent", "capacity:\n  memory: -4GiB\n", "2:", "want a size such as 4GiB"},
		{"agent", "socket: agent.sock\n", "1:9", "want an absolute path"},
		{"agent", "loopbackListen: 127.0.0.1:7071\n", "1:17", "loopbackTrusted"},
	} {
		t.Run(fmt.Sprintf("%s %s", test.server, test.says), func(t *testing.T) {
			file := c.write(fmt.Sprintf("wrong-%d.yaml", n), test.content)
			command(t, nil, test.server, "--config", file).Expect(t, 78, file+":"+test.place, test.says)
		})
	}
	t.Run("environment", func(t *testing.T) {
		command(t, []string{"BURSAR_AGENT_TICK=soon"}, "agent", "--config", c.write("fine.yaml", "hostId: a\n")).
			Expect(t, 78, "BURSAR_AGENT_TICK", "want a duration")
	})
}

const goodQuotas = "quotas:\n  - selector: {user: alice}\n    limit: {instances: 2}\n"

// TestAWrongQuotaFileChangesNothing: not at the start, which is refused, not when it is applied,
// and not when a watched file changes.
func TestAWrongQuotaFileChangesNothing(t *testing.T) {
	t.Parallel()
	const wrong = "quotas:\n  - selector: {user: alice}\n    limit: {instances: 1}\n  - selector: {user: bob}\n    limit: {memory: lots}\n"
	c := newCluster(t, settings{quotas: wrong})
	file := filepath.Join(c.dir, "quotas.yaml")
	command(t, nil, "coordinator", "--config", filepath.Join(c.dir, "coordinator.yaml")).Expect(t, 78, file+":5:", "lots")

	c.write("quotas.yaml", goodQuotas)
	c.startCoordinator()
	c.startAgent()
	limit := func() error {
		for _, account := range c.quotaAccounts() {
			if got := amountsOf(account.GetLimit())["instances"]; got != 2 {
				return fmt.Errorf("the limit is %d, want 2", got)
			}
		}
		return nil
	}
	a, b := c.allocate(request("alice", 1<<20, 0)), c.allocate(request("alice", 1<<20, 0))
	c.write("quotas.yaml", wrong)
	eventually(t, upTime, "the wrong file is noticed", func() error {
		if r := c.bursar("status", "-o", "json"); r.Code != 0 || !strings.Contains(r.Stdout, file+":5:") {
			return fmt.Errorf("status: %s", r.Stdout)
		}
		return nil
	})
	always(t, tick, "with a wrong file", limit)
	c.bursar("quota", "apply", "-f", c.write("apply.yaml", wrong)).Expect(t, 65, "apply.yaml:5:", "lots")
	if err := limit(); err != nil {
		t.Error(err)
	}
	// Made right, it is in force by itself.
	c.write("quotas.yaml", goodQuotas[:len(goodQuotas)-3]+"3}\n")
	eventually(t, 10*time.Second, "the file that was made right is in force", func() error {
		third, err := c.local.Allocations().Allocate(t.Context(), request("alice", 1<<20, 0))
		if err == nil {
			c.release(third.GetAllocation().GetId())
		}
		return err
	})
	c.release(a.GetId())
	c.release(b.GetId())
	c.expectEmpty(soon)
}

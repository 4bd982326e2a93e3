//go:build linux

package ha

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/test/proc"
)

// TestRollingUpgrade brings three coordinators with one PostgreSQL up to date, one after the other
// and the leader last, while agents, clients and commands of both versions work. In between a
// coordinator of each version leads over those of the other: the first new one has brought the
// tables up to date, and an old one that runs must be able to go on with them.
func TestRollingUpgrade(t *testing.T) {
	before := versionBefore(t)
	c := newCluster(t, size{coordinators: 3, agents: 3, program: before.program}, nil)
	for _, m := range c.members {
		c.startAgent("before-"+m.Name, before.program, m.url)
		c.startAgent("after-"+m.Name, "", m.url)
	}
	c.awaitHosts()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watching := c.observe(ctx)
	l := c.startLoad(uint64(time.Now().UnixNano()))
	l.startLaunchers()
	l.startGateways()
	c.commands(executable)
	first, second, last := l.inOrder()
	for _, f := range []fault{
		{"a standby is of the new version", func(l *load) {
			l.upgrade(first)
			// Its first request comes to a leader of the version before through this standby.
			l.startAgent("late-"+first.Name, "", first.url)
		}},
		{"the new version leads", func(l *load) { l.leads(first) }},
		{"the version before leads again", func(l *load) { l.leads(second, last) }},
		{"so is the other standby", func(l *load) {
			old := l.leader()
			l.upgrade(second, last, first)
			if now := l.leader(); now != old {
				t.Errorf("%s led, and after the upgrade of a standby %s leads", old.Name, now.Name)
			}
		}},
		{"and the leader", func(l *load) { l.upgrade(last, second) }},
	} {
		l.survives(f)
		l.acknowledges(20)
		if err := watching.found(); err != nil {
			t.Fatalf("after: %s: %v", f.name, err)
		}
	}
	for _, m := range c.members {
		if m.program != "" {
			t.Errorf("%s is of the version before", m.Name)
		}
	}
	c.commands(before.program)
	l.finish(span{})
	cancel()
	watching.running.Wait()
	if err := watching.found(); err != nil {
		t.Error(err)
	}
}

// inOrder returns the standbys, and then the leader.
func (c *cluster) inOrder() (first, second, last *member) {
	c.t.Helper()
	last = c.leader()
	standbys := slices.DeleteFunc(slices.Clone(c.members), func(m *member) bool { return m == last })
	return standbys[0], standbys[1], last
}

// upgrade starts the first of these that is of the version before and does not lead, or else the
// first, in the new version.
func (l *load) upgrade(candidates ...*member) {
	l.t.Helper()
	leader := l.leader()
	next := slices.IndexFunc(candidates, func(m *member) bool { return m.program != "" && m != leader })
	if next < 0 {
		next = slices.IndexFunc(candidates, func(m *member) bool { return m.program != "" })
	}
	m := candidates[next]
	m.Stop(patience)
	m.program = ""
	m.Start()
	l.awaitMembers()
}

// leads lets all others stand still until one of these leads.
func (c *cluster) leads(wanted ...*member) {
	c.t.Helper()
	var still []*member
	for _, m := range c.members {
		if !slices.Contains(wanted, m) {
			m.Signal(syscall.SIGSTOP)
			still = append(still, m)
		}
	}
	eventually(c.t, "another coordinator leads", func() error {
		for _, m := range wanted {
			if status, err := c.status(m); err == nil && status.GetIsLeader() && status.GetLeaderUrl() == m.url {
				return nil
			}
		}
		return fmt.Errorf("none of %d", len(wanted))
	})
	for _, m := range still {
		m.Signal(syscall.SIGCONT)
	}
}

// commands runs a bursar's commands against every coordinator.
func (c *cluster) commands(program string) {
	c.t.Helper()
	for _, m := range c.members {
		run := func(arguments ...string) []byte {
			c.t.Helper()
			ctx, cancel := context.WithTimeout(c.t.Context(), patience)
			defer cancel()
			cmd := c.lab.Node("hosts-1").Command(ctx, append([]string{program}, arguments...)...)
			var stdout, stderr bytes.Buffer
			cmd.Env, cmd.Stdout, cmd.Stderr = proc.Environment("BURSAR_ADDR="+m.url), &stdout, &stderr
			if err := cmd.Run(); err != nil {
				c.t.Errorf("bursar %s to %s: %v\n%s", strings.Join(arguments, " "), m.Name, err, &stderr)
			}
			return stdout.Bytes()
		}
		var answer struct{ Allocation struct{ ID string } }
		made := run("allocate", "--memory", "1MiB", "--label", "user=commands", "--wait", "30s", "-o", "json")
		if err := json.Unmarshal(made, &answer); err != nil || answer.Allocation.ID == "" {
			c.t.Fatalf("bursar allocate prints %q: %v", made, err)
		}
		id := answer.Allocation.ID
		for _, line := range []string{
			"allocations " + id, "explain " + id, "confirm " + id + " --address 127.0.0.1:1", "release " + id,
			"explain --memory 1MiB --label user=commands", "status", "hosts", "hosts host-0", "allocations", "queues", "audit",
			"host cordon host-0", "host uncordon host-0",
			"quota set user=commands,creator=commands --memory 1GiB", "quotas", "quota delete user=commands,creator=commands",
		} {
			run(append(strings.Fields(line), "-o", "json")...)
		}
	}
}

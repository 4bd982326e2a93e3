//go:build linux

package ha

import (
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/test/proc"
)

// TestEveryCommandRidesOverAChangeOfLeader: who types a command while a leader is lost gets its
// answer some seconds later, and is told what the command waits for.
func TestEveryCommandRidesOverAChangeOfLeader(t *testing.T) {
	c := newCluster(t, size{coordinators: 3, agents: 2}, nil)
	var urls []string
	for _, m := range c.members {
		urls = append(urls, m.url)
	}
	list := strings.Join(urls, ",")
	consul := strings.Replace(c.consuls[0].Address, "http:", "consul:", 1)
	for _, round := range []struct {
		name, place string
		lose        func(leader *member)
		back        func(leader *member)
	}{
		{"the leader is killed, coordinators are listed", list, func(m *member) { m.Kill() }, func(m *member) { m.Start() }},
		{"the leader is killed, Consul knows the coordinators", consul, func(m *member) { m.Kill() }, func(m *member) { m.Start() }},
		{"the leader stands still", list, func(m *member) { m.Signal(syscall.SIGSTOP) }, func(m *member) { m.Signal(syscall.SIGCONT) }},
	} {
		if !t.Run(round.name, func(t *testing.T) {
			u := &commandLine{t: t, c: c, place: round.place, agent: c.hosts[0].socket}
			commands := u.commands()
			leader := c.leader()
			round.lose(leader)
			u.allEndWell(commands)
			c.leaderBut(leader)
			round.back(leader)
			c.awaitMembers()
			c.awaitHosts()
		}) {
			return
		}
	}
}

// commandLine is a user with a terminal.
type commandLine struct {
	t            *testing.T
	c            *cluster
	place, agent string
}

func (u *commandLine) does(args ...string) proc.Result {
	u.t.Helper()
	return proc.Run(u.t, patience, func(cmd *exec.Cmd) {
		cmd.Env = proc.Environment("BURSAR_ADDR="+u.place, "BURSAR_AGENT="+u.agent)
	}, executable, args...)
}

// reserved is the id of a reservation of its own.
func (u *commandLine) reserved(user string) (id string) {
	u.t.Helper()
	result := u.does("allocate", "-m", "1MiB", "-l", "user="+user, "--ttl", "1h")
	result.Expect(u.t, 0)
	return strings.TrimSpace(result.Stdout)
}

// commands are those that ask a coordinator, or an agent that asks one.
func (u *commandLine) commands() [][]string {
	u.t.Helper()
	for _, selector := range []string{"user=gone", "user=set"} {
		u.does("quota", "set", selector, "--memory", "1GiB").Expect(u.t, 0)
	}
	rules := u.c.write("commands.yaml", "quotas:\n  - selector: {user: applied}\n    limit: {instances: 3}\n")
	return [][]string{
		{"status"},
		{"hosts"},
		{"hosts", hostName(0)},
		{"host", "uncordon", hostName(1)},
		{"allocations"},
		{"allocations", "--ended"},
		{"allocations", u.reserved("shown")},
		{"quotas"},
		{"quota", "set", "user=set", "--memory", "2GiB"},
		{"quota", "delete", "user=gone"},
		{"quota", "apply", "-f", rules},
		{"queues"},
		{"providers"},
		{"audit"},
		{"explain", "-m", "1MiB", "-l", "user=explained"},
		{"allocate", "-m", "1MiB", "-l", "user=allocated"},
		{"allocate", "-m", "1MiB", "-l", "user=waited", "--wait", "30s"},
		{"allocate", "-m", "1MiB", "-l", "user=local", "--agent", u.agent},
		{"run", "-m", "1MiB", "-l", "user=ran", "--", "true"},
		{"run", "-m", "1MiB", "-l", "user=patient", "--wait", "30s", "--", "true"},
		{"confirm", u.reserved("confirmed"), "--address", "elsewhere:1"},
		{"renew", u.reserved("renewed")},
		{"resize", u.reserved("resized"), "--memory", "2MiB"},
		{"cancel", u.reserved("canceled")},
		{"release", u.reserved("released")},
	}
}

// allEndWell runs all at a time.
func (u *commandLine) allEndWell(commands [][]string) {
	u.t.Helper()
	results := make([]proc.Result, len(commands))
	var all sync.WaitGroup
	for i, args := range commands {
		all.Go(func() { results[i] = u.does(args...) })
	}
	all.Wait()
	told, longest := 0, time.Duration(0)
	for i, r := range results {
		if r.Code != 0 {
			u.t.Errorf("%v ended with %d after %s:\n%s%s", commands[i], r.Code, r.Took, r.Stdout, r.Stderr)
		}
		said := strings.Count(r.Stderr, "; trying again\n") + strings.Count(r.Stderr, "no answer from ")
		if said > 0 {
			told++
		}
		if said > 1 {
			u.t.Errorf("%v says more than once what it waits for:\n%s", commands[i], r.Stderr)
		}
		longest = max(longest, r.Took)
	}
	if told == 0 {
		u.t.Error("none says what it waits for")
	}
	u.t.Logf("%d commands, the longest took %s; %d said what they wait for", len(commands), longest.Round(time.Millisecond), told)
}

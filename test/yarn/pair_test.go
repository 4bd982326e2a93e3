package yarn_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/test/yarn"
)

// read reads the queues until the result satisfies is, and returns the snapshot.
func read(t *testing.T, p providers.Provider, what string, is func(providers.Snapshot, error) bool) (s providers.Snapshot) {
	t.Helper()
	var before string
	yarn.Await(t, what, func() bool {
		var err error
		s, err = p.Snapshot(t.Context())
		if now := fmt.Sprintf("%s %s, error: %v", s.Server, s.Untrusted, err); now != before {
			t.Logf("until %s: %s", what, now)
			before = now
		}
		return is(s, err)
	})
	return s
}

func noneActive(_ providers.Snapshot, err error) bool {
	_, none := providers.Unavailable(err)
	return none
}

func untrusted(s providers.Snapshot, err error) bool { return err == nil && s.Untrusted != "" }

func trusted(s providers.Snapshot, err error) bool { return err == nil && s.Untrusted == "" }

func used(t *testing.T, s providers.Snapshot, path string) string {
	t.Helper()
	for _, q := range s.Queues {
		if q.Path == path {
			return quantities(q.Used)
		}
	}
	t.Fatalf("no %s in %s", path, show(s.Queues))
	return ""
}

// TestFailover takes a pair of ResourceManagers through all of its states.
func TestFailover(t *testing.T) {
	t.Parallel()
	for _, version := range []string{yarn.Hadoop27, yarn.Hadoop34} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := yarn.Start(t, yarn.Options{Version: version, Pair: true})
			p := open(t, c, nil)

			// Both are standby.
			read(t, p, "none is active", noneActive)
			if roles := servers(t, p); roles != "standby, standby" {
				t.Errorf("roles %q", roles)
			}

			// One becomes active: first without a node.
			c.MakeActive(t, "rm1")
			first := read(t, p, "rm1 leads and has its node", trusted)
			if first.Server != c.Managers[0].URL {
				t.Errorf("read from %s", first.Server)
			}
			if roles := servers(t, p); roles != "active, standby" {
				t.Errorf("roles %q", roles)
			}
			id := c.Submit(t, yarn.Application{Queue: "default", MemoryMiB: 4096, VCores: 4})
			c.AwaitAllocated(t, id)
			read(t, p, "the application is seen", func(s providers.Snapshot, err error) bool {
				return err == nil && used(t, s, "root.default") == "4096/4"
			})

			// A planned failover, with no active one in between.
			c.KillNode(t, 0)
			c.MakeStandby(t, "rm1")
			read(t, p, "none is active", noneActive)
			c.MakeActive(t, "rm2")
			second := read(t, p, "rm2 leads without a node", untrusted)
			if second.Server != c.Managers[1].URL || second.Incarnation == first.Incarnation {
				t.Errorf("read from %s, incarnation %q after %q", second.Server, second.Incarnation, first.Incarnation)
			}
			c.StartNode(t, 0)
			read(t, p, "the node is back", trusted)
			c.Kill(t, id)

			// The active one crashes. Running applications continue, and are reported again once
			// the node is back.
			id = c.Submit(t, yarn.Application{Queue: "default", MemoryMiB: 2048, VCores: 2})
			c.AwaitLaunched(t, id)
			c.KillManager(t, "rm2")
			read(t, p, "none is active", noneActive)
			c.MakeActive(t, "rm1")
			third := read(t, p, "rm1 leads again", trusted)
			if third.Server != c.Managers[0].URL || third.Incarnation == first.Incarnation || third.Incarnation == second.Incarnation {
				t.Errorf("read from %s, incarnation %q after %q and %q", third.Server, third.Incarnation, first.Incarnation, second.Incarnation)
			}
			read(t, p, "the application is seen", func(s providers.Snapshot, err error) bool {
				return err == nil && used(t, s, "root.default") == "2048/2"
			})

			// The crashed one comes back as standby; nothing changes.
			c.StartManager(t, "rm2")
			if roles := servers(t, p); roles != "active, standby" {
				t.Errorf("roles %q", roles)
			}
			if again, err := p.Snapshot(t.Context()); err != nil || again.Incarnation != third.Incarnation {
				t.Errorf("incarnation %q after %q, %v", again.Incarnation, third.Incarnation, err)
			}

			// No ResourceManager is left: that is another error.
			c.KillManager(t, "rm1")
			c.KillManager(t, "rm2")
			_, err := p.Snapshot(t.Context())
			if unavailable, none := providers.Unavailable(err); !unavailable || none {
				t.Errorf("all are dead: %v", err)
			}
		})
	}
}

// servers returns the roles of all servers, in order.
func servers(t *testing.T, p providers.Provider) string {
	t.Helper()
	var roles []string
	for _, s := range p.Servers(t.Context()) {
		if s.Err != nil {
			t.Errorf("%s: %v", s.Address, s.Err)
		}
		roles = append(roles, s.Role)
	}
	return strings.Join(roles, ", ")
}

// TestRestart: a single ResourceManager forgets its applications, and rejects requests without a
// user name.
func TestRestart(t *testing.T) {
	t.Parallel()
	c := yarn.Start(t, yarn.Options{Named: true})
	p := open(t, c, map[string]string{"user": "bursar"})
	expect(t, p, `
root limit 65536/64 used 0/0 guaranteed 65536/64 apps 0=0+0
root.default limit 65536/64 used 0/0 guaranteed 65536/64 apps 0=0+0 RUNNING
`)
	refused(t, open(t, c, nil), "401")
	before := read(t, p, "it is up", trusted)
	id := c.Submit(t, yarn.Application{Queue: "root.default", MemoryMiB: 4096, VCores: 4})
	c.AwaitAllocated(t, id)
	expectApplications(t, p, "known=true ended=false queue=root.default @ 4096/4", id)
	c.KillManager(t, "rm1")
	_, err := p.Snapshot(t.Context())
	if unavailable, none := providers.Unavailable(err); !unavailable || none {
		t.Errorf("it is down: %v", err)
	}
	c.KillNode(t, 0)
	c.StartManager(t, "rm1")
	after := read(t, p, "it is back without its node", untrusted)
	if after.Incarnation == before.Incarnation {
		t.Error("the same incarnation")
	}
	c.StartNode(t, 0)
	after = read(t, p, "the node is back", trusted)
	if now := used(t, after, "root.default"); now != "0/0" {
		t.Errorf("used %s", now)
	}
	expectApplications(t, p, "known=false ended=false queue=", id)
}

package yarn_test

import (
	"strings"
	"testing"

	"github.com/bursar/bursar/test/yarn"
)

// TestApplicationsThatRunElsewhere: a mapping sends the applications of bob to another queue, and
// one of alice's is moved. The parts of the allocations follow them. A failed application has its
// reason.
func TestApplicationsThatRunElsewhere(t *testing.T) {
	t.Parallel()
	binary := buildBursar(t)
	c := yarn.Start(t, yarn.Options{Capacity: map[string]string{
		"root.queues": "granted,mapped,moved", "root.granted.capacity": "50", "root.mapped.capacity": "25", "root.moved.capacity": "25",
		"root.granted.maximum-capacity": "50", "root.mapped.maximum-capacity": "25", "root.moved.maximum-capacity": "25",
		"queue-mappings": "u:bob:root.mapped", "queue-mappings-override.enable": "true",
	}})
	s := startDev(t, binary, providersFile(t, [2]string{"default", "addresses: \"" + c.Addresses() + "\", interval: 2s"}))
	s.awaitRead(t)
	events := s.command(t, t.TempDir(), "watch")
	const granted, mapped, moved = "root.granted", "root.mapped", "root.moved"
	begin := func(user string) (id, app string) {
		t.Helper()
		id = strings.TrimSpace(s.ok(t, "allocate", "-l", "user="+user, "--external", "yarn:default:"+granted+",memory=4GiB,cpu=4"))
		app = c.Submit(t, yarn.Application{Queue: granted, MemoryMiB: 2048, VCores: 2, User: user})
		c.AwaitAllocated(t, app)
		s.ok(t, "confirm", id, "--application", app)
		return id, app
	}
	follows := func(id, app, queue string) {
		t.Helper()
		s.awaitQueue(t, granted, "limit 32768/32 used 0/0 ours 0/0 others 0/0 available 32768/32")
		s.awaitQueue(t, queue, "limit 16384/16 used 2048/2 ours 4096/4 others 0/0 available 12288/12")
		s.awaitQueue(t, "root", "limit 65536/64 used 2048/2 ours 4096/4 others 0/0 available 61440/60")
		text := "its part in " + granted + " has followed " + app + " to " + queue
		for _, command := range [][]string{{"allocations", id}, {"explain", id}} {
			if got := s.ok(t, command...); !strings.Contains(got, text) {
				t.Errorf("%s: want %q, got %s", command[0], text, got)
			}
		}
		yarn.Await(t, "an event tells it", func() bool { return strings.Contains(events.out.String(), text) })
		c.Kill(t, app)
		if got := s.awaitReleased(t, id); !strings.HasPrefix(got.GetReason(), app+" was killed: ") {
			t.Errorf("it was released: %q", got.GetReason())
		}
		s.awaitQueue(t, queue, "limit 16384/16 used 0/0 ours 0/0 others 0/0 available 16384/16")
		s.audit(t)
	}

	id, app := begin("bob")
	follows(id, app, mapped)

	id, app = begin("alice")
	s.awaitQueue(t, granted, "limit 32768/32 used 2048/2 ours 4096/4 others 0/0 available 28672/28")
	c.Move(t, app, moved)
	follows(id, app, moved)

	id = strings.TrimSpace(s.ok(t, "allocate", "-l", "user=carol", "--external", "yarn:default:"+granted+",memory=4GiB,cpu=4"))
	app = c.Submit(t, yarn.Application{Queue: granted, MemoryMiB: 1024, VCores: 1, User: "carol", Command: "exit 3"})
	s.ok(t, "confirm", id, "--application", app)
	reason := s.awaitReleased(t, id).GetReason()
	if !strings.HasPrefix(reason, app+" failed: ") || !strings.Contains(reason, "exitCode: 3") || len(reason) > 400 || strings.ContainsAny(reason, "\n\t\x1b") {
		t.Errorf("it was released: %q", reason)
	}
	s.audit(t)
}

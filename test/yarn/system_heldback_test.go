package yarn_test

import (
	"strings"
	"testing"

	"github.com/bursar/bursar/test/yarn"
)

// TestYARNHoldsBack: no machine has enough free resources for an application that its queue has
// room for. Bursar shows that. With the setting awaitStarts it grants nothing in the queue until
// the application starts.
func TestYARNHoldsBack(t *testing.T) {
	t.Parallel()
	binary := buildBursar(t)
	c := yarn.Start(t, yarn.Options{Nodes: []yarn.Node{{MemoryMiB: 8192, VCores: 8}, {MemoryMiB: 8192, VCores: 8}}})
	pace := "addresses: \"" + c.Addresses() + "\", interval: 2s"
	s := startDev(t, binary, providersFile(t, [2]string{"default", pace}, [2]string{"awaits", pace + ", awaitStarts: true"}))
	s.awaitRead(t)
	const queue, fragmented = "root.default", "no machine has 4GiB of memory"
	first := c.Submit(t, yarn.Application{Queue: queue, MemoryMiB: 5120, VCores: 1})
	second := c.Submit(t, yarn.Application{Queue: queue, MemoryMiB: 5120, VCores: 1})
	c.AwaitAllocated(t, first, second)
	third := c.Submit(t, yarn.Application{Queue: queue, MemoryMiB: 4096, VCores: 1})

	held := "its cluster holds back 1 application although there is room: " + fragmented
	yarn.Await(t, "it is shown that the third is held back", func() bool {
		return strings.Contains(s.ok(t, "queues", "yarn:default:"+queue), held)
	})
	if got := s.ok(t, "explain", "--external", "yarn:default:"+queue+",memory=128MiB,cpu=1,am-memory=128MiB"); !strings.Contains(got, held) || !strings.Contains(got, third) {
		t.Errorf("explain: %s", got)
	}
	s.ok(t, "release", strings.TrimSpace(s.ok(t, "allocate", "--external", "yarn:default:"+queue+",memory=128MiB,cpu=1,am-memory=128MiB")))

	const part = "yarn:awaits:" + queue + ",memory=128MiB,cpu=1,am-memory=128MiB"
	yarn.Await(t, "the other cluster knows it, too", func() bool {
		return strings.Contains(s.ok(t, "queues", "yarn:awaits:"+queue), held)
	})
	s.fails(t, 75, []string{held, "--wait 30m"}, "allocate", "--external", part)
	waits := s.command(t, t.TempDir(), "allocate", "--wait", "3m", "--external", part)
	yarn.Await(t, "a request waits", func() bool {
		return strings.Contains(s.ok(t, "allocations", "--state", "waiting"), "yarn:awaits:"+queue)
	})
	c.Kill(t, first)
	c.AwaitAllocated(t, third)
	got := waits.end()
	if got.code != 0 {
		t.Fatalf("it waited, and got %s", got)
	}
	s.ok(t, "release", strings.TrimSpace(got.out))
	c.Kill(t, second, third)
	s.audit(t)
}

// TestAClusterGrows: a request above the cluster's size today but within growsTo waits until a
// machine joins.
func TestAClusterGrows(t *testing.T) {
	t.Parallel()
	binary := buildBursar(t)
	c := yarn.Start(t, yarn.Options{
		Capacity: map[string]string{"root.queues": "a,b", "root.a.capacity": "50", "root.b.capacity": "50", "root.b.maximum-capacity": "50"},
		Nodes:    []yarn.Node{{MemoryMiB: 8192, VCores: 8}},
	})
	pace := "addresses: \"" + c.Addresses() + "\", interval: 2s"
	s := startDev(t, binary, providersFile(t, [2]string{"default", pace + ", growsTo: \"memory=16GiB,cpu=16\""}, [2]string{"fixed", pace}))
	s.awaitRead(t)
	part := func(cluster, queue, memory string) string {
		return "yarn:" + cluster + ":" + queue + ",memory=" + memory + ",cpu=2,am-memory=1GiB"
	}
	s.fails(t, 75, []string{"queue yarn:default:root.a", "above the limit of today, which may grow to 16GiB", "--wait 1h"}, "allocate", "--external", part("default", "root.a", "12GiB"))
	s.fails(t, 65, []string{"can never fit"}, "allocate", "--wait", "1m", "--external", part("default", "root.a", "20GiB"))
	s.fails(t, 65, []string{"can never fit"}, "allocate", "--wait", "1m", "--external", part("default", "root.b", "12GiB"))
	s.fails(t, 65, []string{"can never fit"}, "allocate", "--wait", "1m", "--external", part("fixed", "root.a", "12GiB"))
	if got := s.ok(t, "queues", "yarn:default:root.b"); !strings.Contains(got, "may grow to memory=8GiB,cpu=8") {
		t.Errorf("queues: %s", got)
	}
	waits := s.command(t, t.TempDir(), "allocate", "--wait", "3m", "--external", part("default", "root.a", "12GiB"))
	yarn.Await(t, "a request waits", func() bool { return s.queue(t, "root").GetAccount().GetWaiting() == 1 })
	c.Join(t, yarn.Node{MemoryMiB: 8192, VCores: 8})
	got := waits.end()
	if got.code != 0 {
		t.Fatalf("it waited, and got %s", got)
	}
	s.awaitQueue(t, "root.a", "limit 16384/16 used 0/0 ours 12288/2 others 0/0 available 4096/14")
	s.ok(t, "release", strings.TrimSpace(got.out))
	s.audit(t)
}

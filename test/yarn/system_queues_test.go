package yarn_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/yarn"
)

// othersFill fills a queue, and then only its parent, with applications that were submitted to YARN
// directly.
func othersFill(t *testing.T, c *yarn.Cluster, s *system) {
	const f1, f2 = "root.full.f1", "root.full.f2"
	for _, external := range []string{"yarn:default:root.full.f1", "yarn::root.full.f1", "yarn:f1", "yarn:default:f1"} {
		if got := s.ok(t, "run", "--external", external+",memory=4GiB,cpu=4", "-l", "user=alice", "--", "echo", "it ran"); got != "it ran\n" {
			t.Errorf("%s: %q", external, got)
		}
	}
	s.fails(t, 65, []string{"twin", "root.full.twin", "root.race.twin"}, "run", "--external", "yarn:twin,memory=4GiB", "--", "true")
	s.fails(t, 66, []string{"no such queue", "root.full.none"}, "run", "--external", "yarn:root.full.none,memory=4GiB", "--", "true")
	s.fails(t, 65, []string{"queue yarn:default:root.full.f1: memory: asked for 13GiB", "of 12GiB", "can never fit"},
		"run", "--wait", "1m", "--external", "yarn:f1,memory=13GiB", "--", "true")

	other := c.Submit(t, yarn.Application{Queue: f1, MemoryMiB: 10240, VCores: 4, User: "bob"})
	s.awaitQueue(t, f1, "limit 12288/12 used 10240/4 ours 0/0 others 10240/4 available 2048/8")
	s.fails(t, 75, []string{"queue yarn:default:root.full.f1: memory: asked for 4GiB, available 2GiB of 12GiB, short by 2GiB"},
		"run", "--external", "yarn:default:root.full.f1,memory=4GiB,cpu=4", "-l", "user=alice", "--", "true")
	c.Kill(t, other)
	s.awaitQueue(t, f1, "limit 12288/12 used 0/0 ours 0/0 others 0/0 available 12288/12")

	other = c.Submit(t, yarn.Application{Queue: f2, MemoryMiB: 14336, VCores: 1, User: "bob"})
	s.awaitQueue(t, f1, "limit 12288/12 used 0/0 ours 0/0 others 0/0 available 2048/12")
	got := s.bursar(t, "run", "--external", "yarn:default:root.full.f1,memory=4GiB,cpu=4", "-l", "user=alice", "--", "true")
	if want := "queue yarn:default:root.full: memory: asked for 4GiB, available 2GiB of 16GiB, short by 2GiB"; got.code != 75 ||
		!strings.Contains(got.errors, want) || strings.Contains(got.errors, f1+": ") {
		t.Errorf("want that %s, and nothing of %s; got %s", want, f1, got)
	}

	// A waiting request gets the resources that YARN takes back from the other queue.
	waits := s.command(t, t.TempDir(), "run", "--wait", "1m", "--external", "yarn:default:root.full.f1,memory=4GiB,cpu=4", "-l", "user=alice", "--", "echo", "it ran")
	yarn.Await(t, "it waits", func() bool {
		return strings.Contains(waits.errors.String(), "in line for queue yarn:default:root.full, which lacks 2GiB of memory")
	})
	c.Kill(t, other)
	killed := time.Now()
	if got := waits.end(); got.code != 0 || got.out != "it ran\n" {
		t.Errorf("it waited, and got %s", got)
	}
	t.Logf("granted %v after the application was killed; the cluster is read every 2 s", time.Since(killed).Round(100*time.Millisecond))
}

// lastCapacity has many callers request the room of one at once; one of them uses its grant.
func lastCapacity(t *testing.T, c *yarn.Cluster, s *system) {
	const r1 = "root.race.r1"
	var all sync.WaitGroup
	answers := make([]said, 24) // in two queues; their parent has room for eight
	for i := range answers {
		part := fmt.Sprintf("yarn:default:root.race.%s,memory=2GiB,cpu=2", []string{"r1", "twin"}[i%2])
		one := s.command(t, t.TempDir(), "allocate", "--external", part, "--ttl", "10m", "-l", fmt.Sprintf("user=u%d", i))
		all.Go(func() { answers[i] = one.end() })
	}
	all.Wait()
	var granted []string
	for _, answer := range answers {
		switch answer.code {
		case 0:
			granted = append(granted, strings.TrimSpace(answer.out))
		case 75:
		default:
			t.Errorf("neither granted nor refused: %s", answer)
		}
	}
	if len(granted) != 8 {
		t.Errorf("%d of %d were granted 2 GiB of 16 GiB", len(granted), len(answers))
	}
	if got, want := figures(s.queue(t, "root.race")), "limit 16384/16 used 0/0 ours 16384/16 others 0/0 available 0/0"; got != want {
		t.Errorf("want %s, got %s", want, got)
	}
	s.ok(t, append([]string{"release"}, granted...)...)

	// One engine submits an application, and names it. Then the queue's figures separate our use
	// from others'.
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "submitted"), 0o600); err != nil {
		t.Fatal(err)
	}
	engine := s.command(t, dir, "run", "--external", "yarn:r1,memory=8GiB,cpu=8", "-l", "user=alice", "--", "sh", "-c",
		`echo $BURSAR_ALLOCATION_ID && read id <submitted && bursar confirm --application $id && exec sleep 600`)
	yarn.Await(t, "the engine runs", func() bool { return strings.Contains(engine.out.String(), "\n") })
	id, _, _ := strings.Cut(engine.out.String(), "\n")
	s.awaitQueue(t, r1, "limit 16384/16 used 0/0 ours 8192/8 others 0/0 available 8192/8")
	own := c.Submit(t, yarn.Application{Queue: r1, MemoryMiB: 8192, VCores: 8})
	c.AwaitAllocated(t, own)
	if err := os.WriteFile(filepath.Join(dir, "submitted"), []byte(own+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.awaitQueue(t, r1, "limit 16384/16 used 8192/8 ours 8192/8 others 0/0 available 8192/8")
	other := c.Submit(t, yarn.Application{Queue: r1, MemoryMiB: 4096, VCores: 4, User: "bob"})
	s.awaitQueue(t, r1, "limit 16384/16 used 12288/12 ours 8192/8 others 4096/4 available 4096/4")
	if got := s.ok(t, "queues", "yarn:default:root.race.r1"); !strings.Contains(got, "12GiB, 12 cpu") || !strings.Contains(got, "2/0/") {
		t.Errorf("queues: %s", got)
	}
	if got := s.allocation(t, id); got.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE || strings.Join(got.GetApplicationIds(), " ") != own {
		t.Errorf("the allocation is %v", got)
	}

	// The application outlives its engine: its use then counts as others'.
	engine.stop(syscall.SIGTERM)
	s.awaitReleased(t, id)
	s.awaitQueue(t, r1, "limit 16384/16 used 12288/12 ours 0/0 others 12288/12 available 4096/4")
	c.Kill(t, own)
	s.awaitQueue(t, r1, "limit 16384/16 used 4096/4 ours 0/0 others 4096/4 available 12288/12")
	c.Kill(t, other)
}

// lives: an allocation without a process lives as long as its application.
func lives(t *testing.T, c *yarn.Cluster, s *system) {
	id := strings.TrimSpace(s.ok(t, "allocate", "-l", "user=bob", "--external", "yarn:default:root.life,memory=6GiB,cpu=4"))
	app := yarn.Application{Queue: "root.life", MemoryMiB: 2048, VCores: 2, User: "bob"}
	one, two := c.Submit(t, app), c.Submit(t, app)
	s.ok(t, "confirm", id, "--application", one, "--application", two)
	s.awaitQueue(t, "root.life", "limit 16384/16 used 4096/4 ours 6144/4 others 0/0 available 10240/12")
	c.Kill(t, one)
	s.awaitQueue(t, "root.life", "limit 16384/16 used 2048/2 ours 6144/4 others 0/0 available 10240/12")
	if got := s.allocation(t, id); got.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE {
		t.Errorf("one of its applications ended, and it is %v", got)
	}
	c.Kill(t, two)
	if got := s.awaitReleased(t, id); !strings.HasPrefix(got.GetReason(), one+" was killed: ") {
		t.Errorf("it was released: %q", got.GetReason())
	}
	s.awaitQueue(t, "root.life", "limit 16384/16 used 0/0 ours 0/0 others 0/0 available 16384/16")

	// An unknown application counts as ended, once the time for its submission is over.
	id = strings.TrimSpace(s.ok(t, "allocate", "-l", "user=bob", "--external", "yarn:quick:root.life,memory=1GiB"))
	s.ok(t, "confirm", id, "--application", "application_1_1")
	s.awaitReleased(t, id)

	// An application that YARN rejects is over at once. An engine with a process lives as long as
	// its process.
	engine := s.command(t, t.TempDir(), "run", "--external", "yarn:default:root.life,memory=1GiB", "-l", "user=carol", "--", "sh", "-c",
		`bursar confirm --application application_1_1 && echo $BURSAR_ALLOCATION_ID && exec sleep 600`)
	yarn.Await(t, "the engine has confirmed", func() bool {
		if !engine.running() {
			t.Fatalf("the engine: %s%s", &engine.out, &engine.errors)
		}
		return strings.Count(engine.out.String(), "\n") == 2
	})
	id = strings.TrimSpace(s.ok(t, "allocate", "-l", "user=bob", "--external", "yarn:default:root.life,memory=1GiB"))
	s.ok(t, "confirm", id, "--application", c.Submit(t, yarn.Application{Queue: "root.nowhere", MemoryMiB: 1024, VCores: 1}))
	s.awaitReleased(t, id)
	if !engine.running() {
		t.Fatalf("the engine: %s%s", &engine.out, &engine.errors)
	}
	lines := strings.Fields(engine.out.String())
	if got := s.allocation(t, lines[len(lines)-1]); got.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE {
		t.Errorf("its engine runs, and it is %v", got)
	}
	engine.stop(syscall.SIGTERM)
	s.awaitQueue(t, "root.life", "limit 16384/16 used 0/0 ours 0/0 others 0/0 available 16384/16")
}

package yarn_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/test/yarn"
)

// usersQueues configures a FairScheduler in which each user has a queue that is created on first
// use.
const usersQueues = `<allocations>
<queue name="users" type="parent"><maxResources>32768 mb,32 vcores</maxResources></queue>
<queue name="etl"><queue name="day"/><queue name="night"/></queue>
</allocations>`

// TestUsersQueues: a FairScheduler creates root.users.alice when an application names it, and
// removes it some time after the last one. A request for it is granted before it exists, while it
// exists, and afterwards; a request for a parent is refused.
func TestUsersQueues(t *testing.T) {
	t.Parallel()
	binary := buildBursar(t)
	c := yarn.Start(t, yarn.Options{Fair: usersQueues})
	pace := "addresses: \"" + c.Addresses() + "\", interval: 2s"
	s := startDev(t, binary, providersFile(t, [2]string{"default", pace}, [2]string{"users", pace + ", undeclaredQueues: [root.users]"}, [2]string{"strict", pace + ", undeclaredQueues: none"}))
	s.awaitRead(t)
	const alice = "root.users.alice"
	part := func(queue string) string { return "yarn:default:" + queue + ",memory=4GiB,cpu=4" }

	s.fails(t, 65, []string{"root.users takes none itself", "root.users.NAME", "is made by using it"}, "allocate", "--external", part("root.users"))
	s.fails(t, 65, []string{"root.etl takes none itself", "below it do root.etl.day, root.etl.night"}, "allocate", "--wait", "1m", "--external", part("root.etl"))
	for cluster, code := range map[string]int{"default": 0, "users": 0, "strict": 66} {
		yarn.Await(t, cluster+" is read", func() bool {
			return s.bursar(t, "explain", "--external", "yarn:"+cluster+":"+alice+",memory=1GiB").code == code
		})
	}
	s.fails(t, 66, []string{"no such queue"}, "allocate", "--external", "yarn:users:root.typo,memory=1GiB")

	there := func() bool {
		snapshot, err := open(t, c, nil).Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(snapshot.Queues, func(q providers.Queue) bool { return q.Path == alice })
	}
	for range 2 {
		if there() {
			t.Fatalf("%s is there before it is used", alice)
		}
		id := strings.TrimSpace(s.ok(t, "allocate", "-l", "user=alice", "--external", part(alice)))
		app := c.Submit(t, yarn.Application{Queue: alice, MemoryMiB: 2048, VCores: 2, User: "alice"})
		c.AwaitAllocated(t, app)
		s.ok(t, "confirm", id, "--application", app)
		s.awaitQueue(t, alice, "limit 65536/64 used 2048/2 ours 4096/4 others 0/0 available 28672/28")
		s.ok(t, "release", strings.TrimSpace(s.ok(t, "allocate", "-l", "user=alice", "--external", part("alice"))))
		c.Kill(t, app)
		s.awaitReleased(t, id)
		yarn.Await(t, "YARN removes "+alice, func() bool { return !there() })
	}
	s.audit(t)
}

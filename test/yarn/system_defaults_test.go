package yarn_test

import (
	"fmt"
	"strings"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/yarn"
)

// grantedStarts fills queues with Hadoop's defaults. For each grant an application starts; after
// each refusal the same application is submitted nevertheless, and does not start.
func grantedStarts(t *testing.T, c *yarn.Cluster, s *system) {
	// Masters may use 3328 MiB and 4 cores, those of one user 1408 MiB and 2 cores.
	f := &filler{t: t, c: c, s: s, queue: "root.defaults", memory: 512}
	f.fill("alice", 2, "user alice in queue yarn:default:root.defaults", "for application masters", "User's AM resource limit exceeded")
	f.fill("bob", 2, "queue yarn:default:root.defaults: it may use 4 cores for application masters", "0 of them are free; this one needs 1", "Queue's AM resource limit exceeded")
	f.fill("carol", 0, "queue yarn:default:root.defaults: it may use 4 cores for application masters", "", "Queue's AM resource limit exceeded")
	f.end()

	// One user's limit in an elastic queue: 12.8 GiB of 32.
	s.fails(t, 65, []string{"user dave in queue yarn:default:root.defaults", "can never fit"},
		"allocate", "-l", "user=dave", "--external", "yarn:default:root.defaults,memory=13GiB,cpu=1,am-memory=512MiB")

	f = &filler{t: t, c: c, s: s, queue: "root.few", memory: 128}
	f.fill("alice", 2, "user alice in queue yarn:default:root.few", "it may have 2 applications", "from user alice")
	f.fill("bob", 1, "queue yarn:default:root.few: it may have 3 applications", "", "already has 3 applications")
	f.end()
}

// filler fills a queue with applications whose only container is their master.
type filler struct {
	t      *testing.T
	c      *yarn.Cluster
	s      *system
	queue  string
	memory int // of a master, in MiB
	ids    []string
	names  []string
}

// fill lets a user take all available room: that many applications. The refusal of the next one has
// the words, before the applications run and afterwards, and YARN's diagnostics explain why it does
// not start.
func (f *filler) fill(user string, want int, account, words, diagnostics string) {
	f.t.Helper()
	var names, apps []string
	for len(names) <= want {
		got := f.allocate(user)
		if got.code != 0 {
			f.refused(user, got, account, words)
			break
		}
		names = append(names, strings.TrimSpace(got.out))
	}
	if len(names) != want {
		f.t.Errorf("%s was granted %d applications in %s; want %d", user, len(names), f.queue, want)
	}
	for range names {
		apps = append(apps, f.submit(user))
	}
	f.c.AwaitAllocated(f.t, apps...)
	for i, name := range names {
		f.s.ok(f.t, "confirm", name, "--application", apps[i])
	}
	f.ids, f.names = append(f.ids, apps...), append(f.names, names...)
	// Until two readings have shown them they count as ours and as others'.
	yarn.Await(f.t, "what runs in "+f.queue+" is known to be ours", func() bool {
		q := f.s.queue(f.t, f.queue)
		return q.GetApplications() == int32(len(f.ids)) && isZero(q.GetAccount().GetUsedByOthers())
	})
	f.refused(user, f.allocate(user), account, words)

	// The refused application would not start.
	app := f.submit(user)
	said := ""
	f.t.Cleanup(func() {
		if f.t.Failed() {
			f.t.Logf("YARN says of the application of %s that was refused: %s", user, said)
		}
	})
	yarn.Await(f.t, "YARN says why "+app+" does not start", func() bool {
		said = f.c.Diagnostics(f.t, app)
		return strings.Contains(said, diagnostics)
	})
	f.c.Kill(f.t, app)
}

// allocate requests one more application of a user.
func (f *filler) allocate(user string) said {
	f.t.Helper()
	part := "yarn:default:" + f.queue + ",memory=512MiB,cpu=1,am-memory=" + fmt.Sprint(f.memory) + "MiB,am-cpu=1"
	return f.s.bursar(f.t, "allocate", "-l", "user="+user, "--external", part)
}

// refused checks that one more application is refused by an account, and with these words.
func (f *filler) refused(user string, got said, account, words string) {
	f.t.Helper()
	if got.code != 75 || !strings.Contains(got.errors, account) || !strings.Contains(got.errors, words) {
		f.t.Errorf("one more of %s in %s: %s; want %q and %q", user, f.queue, got, account, words)
	}
}

// isZero reports whether nothing is used.
func isZero(r *bursarv1.Resource) bool {
	used := r.GetMemoryBytes() + r.GetCpuMillis()
	for _, n := range r.GetCustom() {
		used += n
	}
	return used == 0
}

func (f *filler) submit(user string) string {
	f.t.Helper()
	return f.c.Submit(f.t, yarn.Application{Queue: f.queue, MemoryMiB: f.memory, VCores: 1, User: user})
}

// end ends all applications, and with them their allocations.
func (f *filler) end() {
	f.t.Helper()
	f.c.Kill(f.t, f.ids...)
	for _, id := range f.names {
		f.s.awaitReleased(f.t, id)
	}
}

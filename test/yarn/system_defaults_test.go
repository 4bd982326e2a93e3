package yarn_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bursar/bursar/test/yarn"
)

// defaultsQueues have Hadoop's own defaults for what limits applications next to their resources: a
// tenth of the queue is for masters, and a user gets what the queue is promised. The last one
// has room for few applications.
var defaultsQueues = map[string]string{
	"root.queues":                               "defaults,few,rest",
	"root.defaults.capacity":                    "20",
	"root.defaults.maximum-capacity":            "50",
	"root.defaults.user-limit-factor":           "1",
	"root.defaults.maximum-am-resource-percent": "0.1",
	"root.few.capacity":                         "20",
	"root.few.maximum-applications":             "3",
	"root.few.user-limit-factor":                "0.67",
	"root.rest.capacity":                        "60",
	"root.rest.user-limit-factor":               "1",
}

// TestWhatIsGrantedStarts fills queues that have Hadoop's defaults. Each grant is used by an
// application that starts; after each refusal the same application is submitted nevertheless, and
// does not start.
func TestWhatIsGrantedStarts(t *testing.T) {
	binary := buildBursar(t)
	c := yarn.Start(t, yarn.Options{Capacity: defaultsQueues})
	settings := "addresses: \"" + c.Addresses() + "\", interval: 2s, smallestContainer: \"memory=128MiB,cpu=1\""
	s := startDev(t, binary, providersFile(t, [2]string{"default", settings}))
	s.awaitRead(t)

	// Masters may have 3328 MiB and 4 cores, those of one user 1408 MiB and 2 cores.
	f := &filler{t: t, c: c, s: s, queue: "root.defaults", memory: 512}
	f.fill("alice", 2, "user alice in queue yarn:default:root.defaults", "for application masters", "User's AM resource limit exceeded")
	f.fill("bob", 2, "queue yarn:default:root.defaults: it may use 4 cores for application masters", "0 of them are free; this one needs 1", "Queue's AM resource limit exceeded")
	f.fill("carol", 0, "queue yarn:default:root.defaults: it may use 4 cores for application masters", "", "Queue's AM resource limit exceeded")
	f.end()

	// What one user may have of an elastic queue: 12.8 GiB of 32.
	s.fails(t, 65, []string{"user dave in queue yarn:default:root.defaults", "can never fit"},
		"allocate", "-l", "user=dave", "--external", "yarn:default:root.defaults,memory=13GiB,cpu=1,am-memory=512MiB")

	f = &filler{t: t, c: c, s: s, queue: "root.few", memory: 128}
	f.fill("alice", 2, "user alice in queue yarn:default:root.few", "it may have 2 applications", "from user alice")
	f.fill("bob", 1, "queue yarn:default:root.few: it may have 3 applications", "", "already has 3 applications")
	f.end()
	s.audit(t)
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

// fill has a user take all that there is: that many applications. What refuses the next one says
// the words, and YARN says why it does not start it.
func (f *filler) fill(user string, want int, account, words, diagnostics string) {
	f.t.Helper()
	part := "yarn:default:" + f.queue + ",memory=512MiB,cpu=1,am-memory=" + fmt.Sprint(f.memory) + "MiB,am-cpu=1"
	granted := 0
	for {
		// What has just started counts as ours and as others' for two readings.
		got := f.s.bursar(f.t, "allocate", "--wait", "10s", "-l", "user="+user, "--external", part)
		if got.code != 0 {
			if got.code != 75 || !strings.Contains(got.errors, account) || !strings.Contains(got.errors, words) {
				f.t.Errorf("%s is refused after %d: %s; want %q and %q", user, granted, got, account, words)
			}
			break
		}
		granted++
		id := strings.TrimSpace(got.out)
		app := f.submit(user)
		f.c.AwaitAllocated(f.t, app)
		f.s.ok(f.t, "confirm", id, "--application", app)
		f.ids, f.names = append(f.ids, app), append(f.names, id)
	}
	if granted != want {
		f.t.Errorf("%s was granted %d applications in %s; want %d", user, granted, f.queue, want)
	}
	// What was refused would not start.
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

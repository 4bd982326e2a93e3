package yarn

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// waitsIn returns an application that waits for its first container, as YARN lists it.
func waitsIn(id int, queue string, memory int, waited time.Duration, diagnostics string) string {
	return fmt.Sprintf(`{"id":"application_1_%d","user":"alice","queue":%q,"state":"ACCEPTED","elapsedTime":%d,"diagnostics":%q,"allocatedMB":0,
"amNodeLabelExpression":"","resourceRequests":[{"resourceName":"*","capability":{"memory":%d,"vCores":1},"numContainers":1}]}`,
		id, queue, waited.Milliseconds(), diagnostics, memory)
}

func listOf(applications ...string) string {
	return `{"apps":{"app":[` + strings.Join(applications, ",") + `]}}`
}

// heldIn returns the HeldBack fields of root.a in a reading.
func heldIn(t *testing.T, p providers.Provider) string {
	t.Helper()
	for _, q := range snapshot(t, p).Queues {
		if q.Path == "root.a" {
			return fmt.Sprintf("%d %s", q.HeldBack, q.HeldBackBy)
		}
	}
	t.Fatal("no root.a")
	return ""
}

// An application is held back if it has waited for ten seconds and its queue has room for it. The
// reason is that no machine is large enough, or otherwise YARN's own diagnostics.
func TestApplicationsThatAreHeldBack(t *testing.T) {
	const added = "[Sat Nov 21 01:52:35 +0000 2026] Application is added to the scheduler and is not yet activated. Something stands in the way.  Details : AM Partition = <DEFAULT_PARTITION>; "
	node := func(memory, cpu int) string {
		return fmt.Sprintf(`{"state":"RUNNING","availMemoryMB":%d,"availableVirtualCores":%d}`, memory, cpu)
	}
	small := `{"nodes":{"node":[` + node(2048, 8) + `,` + node(3072, 1) + `,{"state":"LOST","availMemoryMB":99999,"availableVirtualCores":99}]}}`
	for name, test := range map[string]struct{ apps, nodes, want string }{
		"a fragmented cluster": {
			listOf(waitsIn(2, "root.a", 4096, time.Minute, added), waitsIn(1, "a", 4096, time.Hour, added)), small,
			"2 no machine has 4GiB of memory and 1 cores in one piece, which application_1_1 needs; the most on one is 3GiB of memory and 1 cores",
		},
		"one machine is enough": {
			listOf(waitsIn(1, "root.a", 1024, time.Minute, added)), small,
			"1 YARN says of application_1_1: Application is added to the scheduler and is not yet activated. Something stands in the way.",
		},
		"the room is set aside for it": {
			strings.Replace(listOf(waitsIn(1, "root.a", 7168, time.Minute, "")), `"allocatedMB":0`, `"allocatedMB":0,"reservedMB":1024,"reservedVCores":1`, 1), small,
			"1 no machine has 7GiB of memory and 1 cores in one piece, which application_1_1 needs; the most on one is 3GiB of memory and 1 cores",
		},
		"YARN says nothing":      {listOf(waitsIn(1, "root.a", 1024, time.Minute, "")), small, "1 YARN does not say why application_1_1 waits"},
		"no list of machines":    {listOf(waitsIn(1, "root.a", 4096, time.Minute, "")), "", "1 YARN does not say why application_1_1 waits"},
		"it has come just now":   {listOf(waitsIn(1, "root.a", 4096, 9*time.Second, added)), small, "0 "},
		"the queue is too full":  {listOf(waitsIn(1, "root.a", 8000, time.Minute, added)), small, "0 "},
		"of a queue of another":  {listOf(waitsIn(1, "root.b", 1024, time.Minute, added)), small, "0 "},
		"no list of those":       {"", small, "0 "},
		"a list of no sense":     {`{"apps":{"app":[{"id":"x","elapsedTime":1e99,"queue":"root.a"}]}}`, small, "0 "},
		"it holds something now": {strings.Replace(listOf(waitsIn(1, "root.a", 1024, time.Minute, added)), `"allocatedMB":0`, `"allocatedMB":1024`, 1), small, "0 "},
	} {
		t.Run(name, func(t *testing.T) {
			rm := newRM(t)
			rm.does("/scheduler", answerJSON(strings.Replace(fairAnswer(8192), `"numPendingApps":0`, `"numPendingApps":1`, 1)))
			for path, body := range map[string]string{"/apps": test.apps, "/nodes": test.nodes} {
				if body == "" {
					rm.does(path, answerWith(http.StatusForbidden, "no"))
				} else {
					rm.does(path, answerJSON(body))
				}
			}
			if got := heldIn(t, openAt(t, kind{}, []*fakeRM{rm})); got != test.want {
				t.Errorf("%s\nwant %s", got, test.want)
			}
		})
	}
}

// In a labelled partition only its own machines count.
func TestWhatIsHeldBackInAPartition(t *testing.T) {
	size := func(memory, cpu int64) resource.Vector {
		return resource.Vector{}.WithMemory(memory << 30).WithCPU(cpu * core)
	}
	free := pieces{}
	for partition, machine := range map[string]resource.Vector{"": size(64, 64), "gpu": size(2, 8)} {
		if !free.add(partition, machine) {
			t.Fatal("a machine is not kept")
		}
	}
	for partition, want := range map[string]string{
		"":      "YARN does not say why application_1_1 waits",
		"gpu":   "no machine of partition gpu has 4GiB of memory and 1 cores in one piece, which application_1_1 needs; the most on one is 2GiB of memory and 8 cores",
		"empty": "YARN does not say why application_1_1 waits",
	} {
		w := waiting{id: "application_1_1", partition: partition, needs: size(4, 1)}
		if got := w.why(free); got != want {
			t.Errorf("in partition %q: %s; want %s", partition, got, want)
		}
	}
}

// If the cluster is larger than growsTo, the reading has a warning.
func TestAClusterThatIsLargerThanItIsSaidToBecome(t *testing.T) {
	rm := newRM(t)
	rm.does("/scheduler", answerJSON(fairAnswer(8192)))
	for setting, want := range map[string]string{"memory=16GiB,cpu=8": "", "memory=16GiB,cpu=7": "the cluster is larger than growsTo=memory=16GiB,cpu=7", "memory=8GiB": ""} {
		if got := snapshot(t, openAt(t, kind{}, []*fakeRM{rm}, "growsTo", setting)).Doubts; got != want {
			t.Errorf("%s: %q; want %q", setting, got, want)
		}
	}
}

// While nothing is pending, the provider sends no such requests; it asks for machines at most every
// half minute.
func TestWhatIsHeldBackCostsFewRequests(t *testing.T) {
	rm, clock := newRM(t), newClock()
	p := openAt(t, kind{now: clock.Now}, []*fakeRM{rm})
	rm.does("/apps", answerJSON(listOf(waitsIn(1, "root.a", 1024, time.Minute, ""))))
	rm.does("/nodes", answerJSON(`{"nodes":{"node":[]}}`))
	heldIn(t, p)
	if asked := rm.takeAsked(); asked["/apps"]+asked["/nodes"] > 0 {
		t.Errorf("asked for %v although nothing is pending", asked)
	}
	rm.does("/scheduler", answerJSON(strings.Replace(fairAnswer(8192), `"numPendingApps":0`, `"numPendingApps":1`, 1)))
	for range 7 {
		heldIn(t, p)
		clock.advance(5 * time.Second)
	}
	if asked := rm.takeAsked(); asked["/apps"] != 7 || asked["/nodes"] != 2 {
		t.Errorf("in half a minute it asked for %v", asked)
	}
	if query := rm.request("/apps").URL.Query(); query.Get("states") != "ACCEPTED" || query.Get("limit") == "" {
		t.Errorf("asked for %v", query)
	}
}

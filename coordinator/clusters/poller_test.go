package clusters

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
	"github.com/bursar/bursar/test/fakecluster"
)

func TestAClusterIsReadAtOnceAndThenInIntervalsThatDiffer(t *testing.T) {
	for random, want := range map[float64]time.Duration{0: 4 * time.Second, 0.5: 5 * time.Second, 1: 6 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newPollersRig(t, always(random))
			defer w.close()
			here := w.kind.Cluster("here")
			put := time.Now()
			w.put(prod)
			passTime(3 * want)
			reads := here.Times()
			if len(reads) != 4 || !reads[0].Equal(put) {
				t.Fatalf("read at %v, put at %v", reads, put)
			}
			if diff := cmp.Diff([]time.Duration{want, want, want}, gaps(reads)); diff != "" {
				t.Error(diff)
			}
			if c := w.cluster(); !c.Known || c.Queues != 3 || c.Unavailable != "" {
				t.Errorf("%+v", c)
			}
		})
	}
}

// A failing ResourceManager answers with 70 kB of a stack trace. Refusals, the status and the log
// show its beginning, without terminal control characters.
func TestWhatAClusterSaysIsCutAndPrintable(t *testing.T) {
	long := "java.lang.\u202eNullPointerException\x1b[2J\r\n" + strings.Repeat("\tat org.apache.hadoop.yarn\n", 2600)
	synctest.Test(t, func(t *testing.T) {
		w := newPollersRig(t, always(0.5))
		defer w.close()
		here := w.kind.Cluster("here")
		here.With(func(c *fakecluster.Cluster) { c.Err = &providers.UnavailableError{Err: errors.New(long)} })
		w.put(prod)
		passTime(time.Second)
		texts := map[string]string{
			"health": w.pollers.HealthOf(prod).Message, "refusals": w.cluster().Unavailable, "log": strings.TrimSpace(w.log.String()), "warnings": strings.Join(w.pollers.Warnings(), " "),
		}
		here.With(func(c *fakecluster.Cluster) { c.Err, c.Untrusted = nil, long })
		passTime(10 * time.Second)
		texts["untrusted"] = w.cluster().Unavailable
		for where, text := range texts {
			bad := strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) && (r != '\n' || where != "log") })
			if bad || len(text) > 3000 || !strings.Contains(text, "NullPointerException") {
				t.Errorf("%s: %d bytes: %.200q", where, len(text), text)
			}
		}
	})
}

func TestAnIntervalIsStretchedWhileReadingIsSlow(t *testing.T) {
	const s = time.Second
	for _, c := range []struct{ interval, least, took, want time.Duration }{
		{5 * s, 5 * s, s, 5 * s},
		{5 * s, 5 * s, 2 * s, 10 * s},
		{40 * s, 5 * s, 30 * s, 60 * s},
		{60 * s, 5 * s, 60 * s, 60 * s},
		{10 * s, 5 * s, 2 * s, 10 * s},
		{10 * s, 5 * s, s, 5 * s},
		{60 * s, 5 * s, 7 * s, 30 * s},
		{60 * s, 5 * s, 8 * s, 60 * s},
		{8 * s, 5 * s, s, 5 * s},
		{120 * s, 120 * s, 100 * s, 120 * s},
		{120 * s, 120 * s, s, 120 * s},
	} {
		if got := stretched(c.interval, c.least, c.took); got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := newPollersRig(t, always(0.5))
		defer w.close()
		here := w.kind.Cluster("here")
		here.With(func(c *fakecluster.Cluster) { c.Takes = 6 * time.Second })
		w.put(prod)
		passTime(10 * time.Minute)
		var took, want []time.Duration
		for _, gap := range gaps(here.Times())[:4] {
			took = append(took, gap-6*time.Second)
		}
		want = []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 40 * time.Second}
		if diff := cmp.Diff(want, took); diff != "" {
			t.Error(diff)
		}
		// A reading is valid for three intervals.
		here.With(func(c *fakecluster.Cluster) { c.Takes, c.Err = 0, errors.New("nonsense") })
		read := w.cluster().Asked
		for w.cluster().Asked == read && w.pollers.HealthOf(prod).Failures == 0 {
			passTime(time.Second)
		}
		read = w.cluster().Asked
		passTime(read.Add(119 * time.Second).Time().Sub(w.Clock.Now().Time()))
		if !w.cluster().Known {
			t.Error("not known after 119 s")
		}
		passTime(2 * time.Second)
		if c := w.cluster(); c.Known || !strings.Contains(c.Unavailable, "nonsense") {
			t.Errorf("after 121 s: %+v", c)
		}
		here.With(func(c *fakecluster.Cluster) { c.Err = nil })
		passTime(10 * time.Minute)
		if h := w.pollers.HealthOf(prod); h.Interval != 5*time.Second || h.Failures != 0 {
			t.Errorf("when it is quick again: %+v", h)
		}
	})
}

func TestAFailureIsRetriedSoonAndToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPollersRig(t, always(0.5))
		defer w.close()
		here := w.kind.Cluster("here")
		w.put(prod)
		passTime(time.Second)
		here.With(func(c *fakecluster.Cluster) { c.Err = &providers.UnavailableError{Err: errors.New("refused")} })
		here.Times()
		passTime(25 * time.Second)
		reads := here.Times()
		first := reads[0]
		want := []time.Duration{500 * time.Millisecond, 750 * time.Millisecond, 1125 * time.Millisecond, 1687500 * time.Microsecond, 2531250 * time.Microsecond}
		if diff := cmp.Diff(want, gaps(reads)[:len(want)]); diff != "" {
			t.Error(diff)
		}
		if last := gaps(reads)[len(reads)-2]; last != 5*time.Second {
			t.Errorf("at last it is tried again after %s", last)
		}
		if c := w.cluster(); !c.Known {
			t.Errorf("what was read is not good any more: %+v", c)
		}
		h := w.pollers.HealthOf(prod)
		if h.Failures != int32(len(reads)) || h.Message != "no server answers: refused" || !h.failingSince.Time().Equal(first) {
			t.Errorf("%+v", h)
		}
		if n := strings.Count(w.log.String(), "no server answers: refused"); n != 1 {
			t.Errorf("told %d times:\n%s", n, w.Log)
		}
		warning := fmt.Sprintf("cluster fake:prod cannot be read since %s: no server answers: refused", first.UTC().Format(time.RFC3339))
		if diff := cmp.Diff([]string{warning}, w.pollers.Warnings()); diff != "" {
			t.Error(diff)
		}
		passTime(10 * time.Second)
		if c := w.cluster(); c.Known || !strings.Contains(c.Unavailable, "refused") {
			t.Errorf("after 36 s: %+v", c)
		}
		here.With(func(c *fakecluster.Cluster) { c.Err = nil })
		passTime(6 * time.Second)
		if c := w.cluster(); !c.Known || len(w.pollers.Warnings()) != 0 || !strings.Contains(w.log.String(), "read again") {
			t.Errorf("%+v, %v\n%s", c, w.pollers.Warnings(), w.Log)
		}
	})
}

func TestAFailureThatTookLongIsNotRetriedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPollersRig(t, always(0.5))
		defer w.close()
		here := w.kind.Cluster("here")
		here.With(func(c *fakecluster.Cluster) { c.Takes = time.Hour })
		w.put(prod, "timeout", "3s")
		passTime(time.Minute)
		asked := gaps(here.Times())
		if len(asked) != 7 {
			t.Errorf("asked again %d times in a minute", len(asked))
		}
		for _, gap := range asked {
			if gap != 3*time.Second+5*time.Second {
				t.Errorf("asked again %s after the last time, with a timeout of 3 s and an interval of 5 s", gap)
			}
		}
	})
}

func TestWithNobodyInChargeNothingIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPollersRig(t, always(0.5))
		defer w.close()
		here := w.kind.Cluster("here")
		w.put(prod)
		passTime(time.Second)
		here.With(func(c *fakecluster.Cluster) {
			c.Err = &providers.UnavailableError{NoneActive: true, Err: errors.New("rm1 standby")}
		})
		passTime(5 * time.Second)
		if c := w.cluster(); c.Known || !strings.Contains(c.Unavailable, "no active server") {
			t.Errorf("%+v", c)
		}
		here.With(func(c *fakecluster.Cluster) {
			c.Err, c.Incarnation, c.Untrusted = nil, "two", "no machine has reported yet"
		})
		passTime(5 * time.Second)
		if c := w.cluster(); c.Known || !strings.Contains(c.Unavailable, "no machine has reported yet") {
			t.Errorf("%+v", c)
		}
		if diff := cmp.Diff([]string{"cluster fake:prod: no machine has reported yet"}, w.pollers.Warnings()); diff != "" {
			t.Error(diff)
		}
		here.With(func(c *fakecluster.Cluster) { c.Untrusted = "" })
		passTime(6 * time.Second)
		if c := w.cluster(); !c.Known {
			t.Errorf("%+v", c)
		}
	})
}

// The name of a queue hides no other queue, in any kind of cluster.
func TestANameOfAQueueHarmsNoOther(t *testing.T) {
	for name, change := range map[string]func(*fakecluster.Cluster){
		"a queue twice":          func(c *fakecluster.Cluster) { c.Queues = append(c.Queues, c.Queues[1]) },
		"a queue without a path": func(c *fakecluster.Cluster) { c.Queues = append(c.Queues, providers.Queue{}) },
		"a name that is no text": func(c *fakecluster.Cluster) { c.Queues[1].Path = "root.\xff" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newPollersRig(t, always(0.5))
				defer w.close()
				w.kind.Cluster("here").With(change)
				w.put(prod)
				passTime(time.Second)
				if h := w.pollers.HealthOf(prod); h.Failures != 0 || !strings.Contains(h.Message, "queues that no request can name: 1") {
					t.Errorf("%+v", h)
				}
				if c := w.cluster(); !c.Known || c.Unaddressable == nil {
					t.Errorf("%+v", c)
				}
			})
		})
	}
}

func TestAProviderThatFailsBadlyHarmsNobody(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fakecluster.Cluster)
		within time.Duration
		want   string
	}{
		"a panic":   {func(c *fakecluster.Cluster) { c.Panics = "ouch" }, time.Second, "ouch"},
		"no answer": {func(c *fakecluster.Cluster) { c.Hangs = true }, 11 * time.Second, "no answer within 10s"},
		"a negative limit": {func(c *fakecluster.Cluster) {
			c.Queues[1].Limit = resource.Vector{}.WithMemory(-1)
		}, time.Second, `queue "root.a"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newPollersRig(t, always(0.5))
				defer w.close()
				here := w.kind.Cluster("here")
				other := ledger.ClusterName{Kind: "fake", Cluster: "other"}
				here.With(c.change)
				w.put(prod)
				w.put(other, "address", "there")
				passTime(c.within)
				if h := w.pollers.HealthOf(prod); !strings.Contains(h.Message, c.want) || h.Failures == 0 {
					t.Errorf("%+v", h)
				}
				if h := w.pollers.HealthOf(other); h.Failures != 0 || h.Server != "rm1" {
					t.Errorf("the other one: %+v", h)
				}
				here.With(func(c *fakecluster.Cluster) {
					c.Panics, c.Hangs, c.Queues = "", false, []providers.Queue{fakecluster.NewQueue("root", 1<<30)}
				})
				passTime(12 * time.Second)
				if c := w.cluster(); !c.Known {
					t.Errorf("%+v", c)
				}
			})
		})
	}
}

// engine puts an active allocation onto the host, with a part in a queue.
func (w *pollersRig) engine(queue string, memory int64, applications ...string) {
	w.t.Helper()
	r := resource.NewResource(resource.Vector{}.WithMemory(1<<20)).WithPart(resource.Address{Kind: "fake", Path: queue}, resource.Vector{}.WithMemory(memory))
	result, err := w.Allocate(w.t.Context(), &ledger.AllocateCommand{Actor: identity.Local(), Labels: label.Of("user", "alice"), Resource: r})
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = commit.Decide(w.t.Context(), w.Loop, func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return l.Confirm(now, ledger.ConfirmCommand{Actor: identity.Local(), ID: result.Allocation.ID, HostID: "h", ApplicationIDs: applications})
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestOurApplicationsAreAskedForAfterTheQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPollersRig(t, always(0.5))
		defer w.close()
		w.host(1 << 30)
		here := w.kind.Cluster("here")
		w.put(prod)
		passTime(time.Second)
		w.engine("root.a", 1<<30, "application_2", "application_1")
		w.engine("b", 1<<30, "application_3")
		here.With(func(c *fakecluster.Cluster) {
			for _, id := range []string{"application_1", "application_2", "application_3"} {
				c.Applications[id] = providers.Application{Known: true, Queue: "root.a"}
			}
		})
		passTime(5 * time.Second)
		here.With(func(c *fakecluster.Cluster) {
			for _, asked := range c.Asked {
				slices.Sort(asked)
			}
			if diff := cmp.Diff([][]string{{"application_1", "application_2", "application_3"}}, c.Asked); diff != "" || c.Wrong {
				t.Error(diff, c.Wrong)
			}
			c.Partly = errors.New("reset by peer")
		})
		passTime(5 * time.Second)
		h := w.pollers.HealthOf(prod)
		if c := w.cluster(); !c.Known || h.Applications != 3 || h.Message != "2 of 3 applications were not answered: reset by peer" || h.Failures != 0 {
			t.Errorf("%+v, %+v", c, h)
		}
		if diff := cmp.Diff([]string{"cluster fake:prod: 2 of 3 applications were not answered: reset by peer"}, w.pollers.Warnings()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAQueueThatNobodyCanAskForIsLeftOut(t *testing.T) {
	list := []providers.Queue{fakecluster.NewQueue("root", 1<<30), fakecluster.NewQueue("root."+strings.Repeat("ä", 507), 1<<30), fakecluster.NewQueue("root."+strings.Repeat("ä", 508), 1<<30), fakecluster.NewQueue("root"+strings.Repeat(".a", 32), 1<<30)}
	if reports, err := QueueReports(list); err != nil || len(reports) != 2 {
		t.Errorf("%d queues, %v", len(reports), err)
	}
}

// If the clock was set back while no coordinator ran, the ledger's time stands still until the
// clock has caught up. Readings in the meantime do not count as too old.
func TestAClusterIsKnownToALedgerThatIsAheadOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPollersRig(t, always(0.5))
		defer w.close()
		err := w.DoPriority(t.Context(), nil, func(c *core.Core, now ledger.Instant) error {
			return c.Advance(now.Add(time.Hour))
		})
		if err != nil {
			t.Fatal(err)
		}
		w.put(prod)
		passTime(time.Minute)
		if c := w.cluster(); !c.Known {
			t.Error(c.Unavailable)
		}
	})
}

func TestAProviderThatCannotBeOpenedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPollersRig(t, always(0.5))
		defer w.close()
		w.put(ledger.ClusterName{Kind: "other", Cluster: "x"})
		w.put(prod, "secretFile", "password")
		passTime(time.Second)
		want := []string{`a file that is there`, `kind: "other": want fake`}
		for i, warning := range w.pollers.Warnings() {
			if !strings.Contains(warning, want[i]) {
				t.Errorf("got %s, want %s", warning, want[i])
			}
		}
		if err := os.WriteFile(string(w.pollers.Credentials)+"/password", []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		passTime(5 * time.Second)
		if !w.cluster().Known || len(w.pollers.Warnings()) != 1 {
			t.Errorf("%+v, %v", w.cluster(), w.pollers.Warnings())
		}
	})
}

package yarn_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/providers/yarn"
	"github.com/bursar/bursar/resource"
)

// limitsOf formats the limits on applications in a queue, in MiB/cores.
func limitsOf(q *providers.Queue) string {
	of := func(v resource.Vector) string {
		var words []string
		for _, d := range []struct {
			dimension string
			unit      int64
		}{{resource.Memory, 1 << 20}, {resource.CPU, 1000}, {resource.AMMemory, 1 << 20}, {resource.AMCPU, 1000}, {resource.Applications, 1}} {
			if n, set := v.Get(d.dimension); set {
				words = append(words, fmt.Sprint(n/d.unit))
			} else {
				words = append(words, "-")
			}
		}
		return strings.Join(words, "/")
	}
	lines := []string{fmt.Sprintf("%s@%s %s of %s, first %t, new user %s", q.Path, q.Partition, of(q.Used), of(q.Limit), q.FirstIsFree, of(q.UserLimit))}
	for _, u := range q.Users {
		lines = append(lines, fmt.Sprintf("%s %s of %s", u.Name, of(u.Used), of(u.Limit)))
	}
	return strings.Join(lines, "\n") + "\n"
}

// capturedQueues returns the queues of a captured answer.
func capturedQueues(t *testing.T, name string, assume yarn.Assumptions) []providers.Queue {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata/captured", name, "scheduler.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s, err := yarn.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	s.Assume = assume
	return s.Queues(map[string]resource.Vector{"": resource.Vector{}.WithMemory(64 << 30).WithCPU(64000)})
}

// capturedLimits returns the limits of one queue of a captured answer.
func capturedLimits(t *testing.T, name, path string, assume yarn.Assumptions) string {
	t.Helper()
	queues := capturedQueues(t, name, assume)
	for i := range queues {
		if queues[i].Path == path && queues[i].Partition == "" {
			return limitsOf(&queues[i])
		}
	}
	t.Fatalf("%s has no queue %s", name, path)
	return ""
}

// The limits for masters, users and numbers of applications are read from each version's answer. In
// these clusters masters may use a whole queue, and a user a hundred times the guarantee.
func TestLimitsOfApplicationsAreRead(t *testing.T) {
	want := `
root.a.a1@ 3072/3/3072/3/3 of 24576/24/24576/24/1250, first true, new user 819200/800/24576/24/1250
bob 1024/1/1024/1/1 of 819200/800/24576/24/1250
alice 2048/2/2048/2/2 of 819200/800/24576/24/1250
`
	for _, name := range []string{"2.10.2-capacity-percent", "3.3.6-capacity-percent", "3.4.3-capacity-percent", "3.5.0-capacity-percent"} {
		if diff := cmp.Diff(want, "\n"+capturedLimits(t, name, "root.a.a1", yarn.Assumptions{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	// 2.7 gives all users the same limit for masters, and does not compare it with the queue's.
	want = strings.ReplaceAll(want, "819200/800/24576/24/", "819200/800/819200/800/")
	if diff := cmp.Diff(want, "\n"+capturedLimits(t, "2.7.7-capacity-percent", "root.a.a1", yarn.Assumptions{})); diff != "" {
		t.Errorf("2.7.7 (-want +got):\n%s", diff)
	}
	// A parent limits neither masters nor users.
	want = "root.a@ 3072/3/-/-/- of 49152/48/-/-/-, first false, new user -/-/-/-/-\n"
	if got := capturedLimits(t, "3.4.3-capacity-percent", "root.a", yarn.Assumptions{}); got != want {
		t.Errorf("want %sgot %s", want, got)
	}
}

// With the default calculator, cores limit nothing.
func TestCoresDoNotLimitByTheDefaultCalculator(t *testing.T) {
	want := `
root.a.a1@ 3072/3/3072/3/3 of 24576/-/24576/-/1250, first true, new user 819200/-/24576/-/1250
bob 1024/1/1024/1/1 of 819200/-/24576/-/1250
alice 2048/2/2048/2/2 of 819200/-/24576/-/1250
`
	assume := yarn.Assumptions{Calculator: yarn.CalculatorDefault}
	if diff := cmp.Diff(want, "\n"+capturedLimits(t, "3.4.3-capacity-percent", "root.a.a1", assume)); diff != "" {
		t.Error(diff)
	}
}

// answerOf returns the answer of a CapacityScheduler with one queue of 44 GiB and 44 cores of 64.
// %s stands for further fields of the queue.
func answerOf(fields string) string {
	return `{"scheduler":{"schedulerInfo":{"type":"capacityScheduler","queueName":"root",
		"capacities":{"queueCapacitiesByPartition":[{"partitionName":"","absoluteCapacity":100,"absoluteMaxCapacity":100,
			"effectiveMinResource":{"memory":65536,"vCores":64},"effectiveMaxResource":{"memory":65536,"vCores":64}}]},
		"queues":{"queue":[{"queueName":"a","state":"RUNNING",
			"capacities":{"queueCapacitiesByPartition":[{"partitionName":"","maxAMLimitPercentage":10.0,
				"effectiveMinResource":{"memory":13107,"vCores":12},"effectiveMaxResource":{"memory":45056,"vCores":44}}]},` + fields + `}]}}}}`
}

func limitsIn(t *testing.T, answer string, assume yarn.Assumptions) string {
	t.Helper()
	s, err := yarn.Decode(strings.NewReader(answer))
	if err != nil {
		t.Fatal(err)
	}
	s.Assume = assume
	queues := s.Queues(nil)
	return limitsOf(&queues[len(queues)-1])
}

func TestUsersOfACapacityQueue(t *testing.T) {
	smallest := yarn.Assumptions{Container: resource.Vector{}.WithMemory(1 << 30).WithCPU(1000)}
	masters := `"AMResourceLimit":{"memory":5120,"vCores":5},"usedAMResource":{"memory":1024,"vCores":1},`
	users := func(list ...string) string { return `"users":{"user":[` + strings.Join(list, ",") + `]}` }
	for name, test := range map[string]struct {
		fields string
		assume yarn.Assumptions
		want   string
	}{
		"Hadoop's defaults": {
			masters + `"userLimit":100,"userLimitFactor":1.0`,
			yarn.Assumptions{},
			"root.a@ 0/0/1024/1/- of 45056/44/5120/5/-, first true, new user 13107/12/1311/2/-\n",
		},
		"rounded up to a container": {
			masters + `"userLimit":100,"userLimitFactor":1.0`, smallest,
			"root.a@ 0/0/1024/1/- of 45056/44/5120/5/-, first true, new user 13312/12/2048/2/-\n",
		},
		"no factor": {
			masters + `"userLimit":100,"userLimitFactor":-1.0`,
			yarn.Assumptions{},
			"root.a@ 0/0/1024/1/- of 45056/44/5120/5/-, first true, new user 45056/44/1311/2/-\n",
		},
		"a share for each of several users": {
			// Two of the three are active. A fourth user would be the third active one.
			masters + `"userLimit":25,"userLimitFactor":2.0,` + users(
				`{"username":"a","isActive":true,"userWeight":1.0}`, `{"username":"b","isActive":true,"userWeight":3.0}`, `{"username":"c"}`),
			yarn.Assumptions{},
			"root.a@ 0/0/1024/1/- of 45056/44/5120/5/-, first true, new user 26214/24/874/1/-\n" +
				"a -/-/-/-/- of 26214/24/1311/2/-\nb -/-/-/-/- of 26214/24/2622/3/-\nc -/-/-/-/- of 26214/24/874/1/-\n",
		},
		"what YARN computed for a user": {
			masters + `"userLimit":100,"userLimitFactor":1.0,` + users(`{"username":"a","numActiveApplications":1,"numPendingApplications":2,"resources":{"resourceUsagesByPartition":[
				{"partitionName":"","used":{"memory":1024,"vCores":1},"amUsed":{"memory":512,"vCores":1},"amLimit":{"memory":2048,"vCores":2}}]}}`),
			yarn.Assumptions{},
			"root.a@ 0/0/1024/1/- of 45056/44/5120/5/-, first true, new user 13107/12/1311/2/-\na 1024/1/512/1/3 of 13107/12/2048/2/-\n",
		},
		"numbers of applications": {
			`"numApplications":4,"maxApplications":6,"maxApplicationsPerUser":3,"maxParallelApps":5`,
			yarn.Assumptions{},
			"root.a@ 0/0/-/-/4 of 45056/44/-/-/5, first true, new user -/-/-/-/3\n",
		},
		"not counted in a queue that was made by using it": {
			`"numApplications":4,"maxApplications":6,"maxApplicationsPerUser":3,"isAutoCreatedLeafQueue":true`,
			yarn.Assumptions{},
			"root.a@ 0/0/-/-/- of 45056/44/-/-/-, first true, new user -/-/-/-/-\n",
		},
		"one core for masters proves nothing in a small queue, and limits no core": {
			`"AMResourceLimit":{"memory":5120,"vCores":1},"userLimit":100,"userLimitFactor":2.0`,
			yarn.Assumptions{},
			"root.a@ 0/0/-/-/- of 45056/44/5120/-/-, first true, new user 26214/24/2621/-/-\n",
		},
		"just above a whole container: the default calculator rounds to the nearest MiB first": {
			`"AMResourceLimit":{"memory":2621,"vCores":1},"userLimit":100,"userLimitFactor":0.78130`,
			yarn.Assumptions{Calculator: yarn.CalculatorDefault, Container: resource.Vector{}.WithMemory(1 << 30).WithCPU(1000)},
			"root.a@ 0/0/-/-/- of 45056/-/2621/-/-, first true, new user 10240/-/1024/-/-\n",
		},
		"just above a whole container: the dominant calculator rounds up": {
			`"AMResourceLimit":{"memory":2621,"vCores":1},"userLimit":100,"userLimitFactor":0.78130`,
			yarn.Assumptions{Calculator: yarn.CalculatorDominant, Container: resource.Vector{}.WithMemory(1 << 30).WithCPU(1000)},
			"root.a@ 0/0/-/-/- of 45056/44/2621/1/-, first true, new user 10240/9/2048/1/-\n",
		},
		"nothing is said": {`"numPendingApplications":0`, yarn.Assumptions{}, "root.a@ 0/0/-/-/- of 45056/44/-/-/-, first true, new user -/-/-/-/-\n"},
	} {
		if got := limitsIn(t, answerOf(test.fields), test.assume); got != test.want {
			t.Errorf("%s\nwant %s\ngot  %s", name, test.want, got)
		}
	}
	// The share of 44 cores is four, so one core proves the default calculator, and cores limit
	// nothing.
	proven := strings.Replace(answerOf(`"AMResourceLimit":{"memory":5120,"vCores":1}`), `"effectiveMinResource":{"memory":13107,"vCores":12}`, `"effectiveMinResource":{"memory":45056,"vCores":44}`, 1)
	if got, want := limitsIn(t, proven, yarn.Assumptions{}), "root.a@ 0/0/-/-/- of 45056/-/5120/-/-, first true, new user -/-/-/-/-\n"; got != want {
		t.Errorf("want %s\ngot  %s", want, got)
	}
}

// The answer has the limit for masters at the last start or end of an application in that queue.
// YARN computes it again at the next one, from the room that its siblings and the queues above
// leave.
func TestTheLimitOfMastersFollowsTheQueuesBeside(t *testing.T) {
	for name, test := range map[string]struct {
		told, others int64 // MiB
		percent      string
		want         string
	}{
		"as it was":                      {6656, 0, `"maxAMLimitPercentage":10,`, "6656, estimated []"},
		"others have taken half of it":   {6656, 32768, `"maxAMLimitPercentage":10,`, "3328, estimated []"},
		"others have taken all":          {6656, 60000, `"maxAMLimitPercentage":10,`, "1408, estimated []"},
		"others have given back":         {3328, 0, `"maxAMLimitPercentage":10,`, "3328, estimated [am-memory]"},
		"the percentage is not told":     {6656, 60000, "", "6656, estimated []"},
		"what others have is within one": {6656, 100, `"maxAMLimitPercentage":10,`, "6656, estimated []"},
	} {
		answer := fmt.Sprintf(`{"scheduler":{"schedulerInfo":{"type":"capacityScheduler","queueName":"root","queues":{"queue":[
			{"queueName":"a","capacities":{"queueCapacitiesByPartition":[{"partitionName":"",%s"effectiveMinResource":{"memory":13107,"vCores":12},"effectiveMaxResource":{"memory":65536,"vCores":64}}]},
				"AMResourceLimit":{"memory":%d,"vCores":1},"usedAMResource":{"memory":0,"vCores":0},"resourcesUsed":{"memory":0,"vCores":0}},
			{"queueName":"b","capacities":{"queueCapacitiesByPartition":[{"partitionName":"","effectiveMinResource":{"memory":52428,"vCores":51},"effectiveMaxResource":{"memory":65536,"vCores":64}}]},
				"resourcesUsed":{"memory":%d,"vCores":1}}]}}}}`, test.percent, test.told, test.others)
		s, err := yarn.Decode(strings.NewReader(answer))
		if err != nil {
			t.Fatal(err)
		}
		s.Assume = yarn.Assumptions{Calculator: yarn.CalculatorDefault, Container: resource.Vector{}.WithMemory(128 << 20).WithCPU(1000)}
		for _, q := range s.Queues(map[string]resource.Vector{"": resource.Vector{}.WithMemory(64 << 30).WithCPU(64000)}) {
			if q.Path != "root.a" {
				continue
			}
			n, _ := q.Limit.Get(resource.AMMemory)
			if got := fmt.Sprintf("%d, estimated %v", n>>20, q.Estimated); got != test.want {
				t.Errorf("%s: masters may have %s; want %s", name, got, test.want)
			}
		}
	}
}

func TestMastersOfAFairQueue(t *testing.T) {
	answer := func(fields string) string {
		return `{"scheduler":{"schedulerInfo":{"type":"fairScheduler","rootQueue":{"queueName":"root",
			"clusterResources":{"memory":65536,"vCores":64},"maxResources":{"memory":65536,"vCores":64},"usedResources":{"memory":40960,"vCores":4},
			"childQueues":{"queue":[{"queueName":"root.a","maxResources":{"memory":32768,"vCores":32},"usedResources":{"memory":0,"vCores":0},` + fields + `}]}}}}}`
	}
	for name, test := range map[string]struct {
		fields string
		share  float64
		want   string
	}{
		"none was tried: half of what there is": {
			`"amMaxResources":{"memory":0,"vCores":0},"amUsedResources":{"memory":0,"vCores":0}`, 0,
			"root.a@ 0/0/0/0/- of 32768/32/12288/16/-, first false, new user -/-/-/-/-\n",
		},
		"another share": {
			`"amMaxResources":{"memory":-1,"vCores":-1},"amUsedResources":{"memory":0,"vCores":0}`, 0.25,
			"root.a@ 0/0/0/0/- of 32768/32/6144/8/-, first false, new user -/-/-/-/-\n",
		},
		"no limit": {
			`"amMaxResources":{"memory":0,"vCores":0},"amUsedResources":{"memory":0,"vCores":0}`, -1,
			"root.a@ 0/0/0/0/- of 32768/32/-/-/-, first false, new user -/-/-/-/-\n",
		},
		"masters run that were compared with nothing": {
			`"amMaxResources":{"memory":0,"vCores":0},"amUsedResources":{"memory":1024,"vCores":1}`, 0,
			"root.a@ 0/0/1024/1/- of 32768/32/-/-/-, first false, new user -/-/-/-/-\n",
		},
		"what it was": {
			`"amMaxResources":{"memory":8192,"vCores":8},"amUsedResources":{"memory":1024,"vCores":1},"maxApps":5,"numActiveApps":1,"numPendingApps":1`, 0,
			"root.a@ 0/0/1024/1/2 of 32768/32/8192/8/5, first false, new user -/-/-/-/-\n",
		},
		"a version that does not say": {`"maxApps":2147483647,"numActiveApps":1,"numPendingApps":0`, 0, "root.a@ 0/0/-/-/- of 32768/32/-/-/-, first false, new user -/-/-/-/-\n"},
	} {
		if got := limitsIn(t, answer(test.fields), yarn.Assumptions{AMShare: test.share}); got != test.want {
			t.Errorf("%s\nwant %s\ngot  %s", name, test.want, got)
		}
	}
}

// slowUserLimits returns the limits of a user of weight 1 as LeafQueue and UsersManager compute
// them: in MiB, with 32-bit numbers, rounded up to whole containers.
func slowUserLimits(guaranteed, container int64, percent, userPercent, factor float32, active int) (memory, masters int64) {
	up := func(n int64) int64 { return (n + container - 1) / container * container }
	memory = up(int64(math.Floor(float64(max(guaranteed, container)) * float64(factor))))
	share := min(max(userPercent/100, 1/float32(max(active, 1))), 1)
	masters = up(int64(math.Ceil(float64(float32(float64(guaranteed) * float64(percent/100*share*factor))))))
	return memory, masters
}

// A user's limit is never above YARN's, and at most one container below it.
func TestUsersLimitsAreThoseOfYARN(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		guaranteed := rapid.Int64Range(1, 1<<24).Draw(t, "guaranteed")
		container := rapid.SampledFrom([]int64{1, 128, 512, 1000, 1024}).Draw(t, "container")
		percent := rapid.SampledFrom([]float32{1, 5, 10, 33.3, 50, 100}).Draw(t, "AM percent")
		userPercent := rapid.SampledFrom([]float32{1, 20, 25, 33.333, 50, 100}).Draw(t, "user percent")
		factor := rapid.SampledFrom([]float32{0.1, 0.5, 1, 1.7, 2, 100}).Draw(t, "factor")
		active := rapid.IntRange(0, 5).Draw(t, "active")
		users := make([]string, active)
		for i := range users {
			users[i] = fmt.Sprintf(`{"username":"u%d","isActive":true,"userWeight":1.0}`, i)
		}
		answer := fmt.Sprintf(`{"scheduler":{"schedulerInfo":{"type":"capacityScheduler","queueName":"root","queues":{"queue":[{"queueName":"a",
			"capacities":{"queueCapacitiesByPartition":[{"partitionName":"","maxAMLimitPercentage":%v,
				"effectiveMinResource":{"memory":%d,"vCores":1},"effectiveMaxResource":{"memory":16777216,"vCores":1}}]},
			"userLimit":%v,"userLimitFactor":%v,"users":{"user":[%s]}}]}}}}`, percent, guaranteed, userPercent, factor, strings.Join(users, ","))
		s, err := yarn.Decode(strings.NewReader(answer))
		if err != nil {
			t.Fatal(err)
		}
		s.Assume.Container = resource.Vector{}.WithMemory(container << 20)
		queues := s.Queues(nil)
		got := queues[len(queues)-1].UserLimit
		memory, masters := slowUserLimits(guaranteed, container, percent, userPercent, factor, active+1)
		if n := got.Memory() >> 20; n > memory || n < memory-container {
			t.Fatalf("a user may have %d MiB; YARN allows %d", n, memory)
		}
		am, _ := got.Get(resource.AMMemory)
		// in large queues 32 bits are not exact
		if n := am >> 20; n > masters || n < masters-container-masters/1e6 {
			t.Fatalf("masters of a user may have %d MiB; YARN allows %d", n, masters)
		}
	})
}

// remarksOf formats the other fields about the limits of one queue of a captured answer.
func remarksOf(t *testing.T, name, path string, assume yarn.Assumptions) string {
	t.Helper()
	for _, q := range capturedQueues(t, name, assume) {
		if q.Path != path || q.Partition != "" {
			continue
		}
		text := fmt.Sprintf("not enforced %v, estimated %v, largest container %s", q.NotEnforced, q.Estimated, q.LargestContainer)
		if q.UserPercent != nil {
			text += fmt.Sprintf(", a user is sure of %g %%", *q.UserPercent)
		}
		return text
	}
	t.Fatalf("%s has no %s", name, path)
	return ""
}

// A queue shows which limits are estimated or not enforced, and the largest container if the answer
// has it.
func TestWhatIsToBeSaidOfLimits(t *testing.T) {
	const said, largest = "not enforced [], estimated [], largest container ", "memory=64GiB,cpu=64"
	const none = said + "none"
	for name, test := range map[string]struct {
		capture, path string
		assume        yarn.Assumptions
		want          string
	}{
		"2.7 does not tell the largest": {"2.7.7-capacity-percent", "root.b.b1", yarn.Assumptions{}, none},
		"3.4 does":                      {"3.4.3-capacity-percent", "root.b.b1", yarn.Assumptions{}, said + largest},
		"a parent has no containers":    {"3.4.3-capacity-percent", "root.b", yarn.Assumptions{}, none},
		"cores under the default one":   {"3.4.3-capacity-percent", "root.b.b1", yarn.Assumptions{Calculator: yarn.CalculatorDefault}, "not enforced [cpu], estimated [], largest container " + largest},
		"no master has started":         {"3.4.3-fair", "root.a.a2.low", yarn.Assumptions{}, "not enforced [], estimated [am-memory am-cpu], largest container " + largest},
		"masters are not limited":       {"3.4.3-fair", "root.a.a2.low", yarn.Assumptions{AMShare: -1}, said + largest},
		"2.7 does not tell of masters":  {"2.7.7-fair", "root.a.a2.low", yarn.Assumptions{}, none},
	} {
		t.Run(name, func(t *testing.T) {
			if got := remarksOf(t, test.capture, test.path, test.assume); got != test.want {
				t.Errorf("%s; want %s", got, test.want)
			}
		})
	}
}

package yarn_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/providers/yarn"
)

// parents lists the queues of an answer that take no applications themselves, with a + if the
// cluster creates their children on first use.
func parents(t *testing.T, answer string, assume yarn.Assumptions) string {
	t.Helper()
	s, err := yarn.Decode(strings.NewReader(answer))
	if err != nil {
		t.Fatal(err)
	}
	s.Assume = assume
	var list []string
	for _, q := range s.Queues(nil) {
		if !q.LeavesOnly || q.Partition != "" {
			continue
		}
		if q.CreatesChildren {
			q.Path += "+"
		}
		list = append(list, q.Path)
	}
	return strings.Join(list, " ")
}

// The leaves are recognized in every version.
func TestParentsOfRealClusters(t *testing.T) {
	for name, want := range map[string]string{
		"2.7.7-capacity-percent":   "root root.a root.b",
		"2.7.7-fair":               "root root.a root.a.a2",
		"2.10.2-fair":              "root root.a root.a.a2",
		"3.3.6-capacity-template":  "root root.a+",
		"3.4.3-capacity-partition": "root",
		"3.4.3-capacity-weight":    "root root.a+ root.a.made+",
		"3.5.0-fair":               "root root.a root.a.a2",
	} {
		body, err := os.ReadFile(filepath.Join("testdata", "captured", name, "scheduler.json"))
		if err != nil {
			t.Fatal(err)
		}
		if got := parents(t, string(body), yarn.Assumptions{}); got != want {
			t.Errorf("%s: %s; want %s", name, got, want)
		}
	}
}

// A FairScheduler's parent without children is the only kind of queue without a type. The answer
// does not tell whether it creates children.
func TestQueuesOfAFairSchedulerThatAreMadeByUse(t *testing.T) {
	const leaf = `{"queueName":"root.default","type":"fairSchedulerLeafQueueInfo"}`
	answer := func(children string) string {
		return `{"scheduler":{"schedulerInfo":{"type":"fairScheduler","rootQueue":{"queueName":"root","childQueues":{"queue":[` + children + `]}}}}}`
	}
	users := answer(leaf + `,{"queueName":"root.users"}`)
	deep := answer(leaf + `,{"queueName":"root.users","childQueues":{"queue":[{"queueName":"root.users.etl"}]}},{"queueName":"root.usersx"}`)
	listed := yarn.Assumptions{Undeclared: yarn.Undeclared{Parents: []string{"root.users"}}}
	for name, test := range map[string]struct {
		answer string
		assume yarn.Assumptions
		want   string
	}{
		"by default":         {users, yarn.Assumptions{Undeclared: yarn.Undeclared{Fair: true}}, "root+ root.users+"},
		"never":              {users, yarn.Assumptions{}, "root root.users"},
		"below some":         {users, listed, "root root.users+"},
		"and below these":    {deep, listed, "root root.users+ root.users.etl+ root.usersx"},
		"an old list":        {answer(`{"queueName":"root.default","type":["fairSchedulerLeafQueueInfo"]},{"queueName":"root.users"}`), listed, "root root.users+"},
		"no types at all":    {answer(`{"queueName":"root.default"},{"queueName":"root.users"}`), listed, "root"},
		"a CapacityQueue":    {`{"scheduler":{"schedulerInfo":{"type":"capacityScheduler","queueName":"root","queues":{"queue":[{"queueName":"users","queueType":"parent"},{"queueName":"a","queueType":"leaf"}]}}}}`, listed, "root root.users+"},
		"its own by default": {`{"scheduler":{"schedulerInfo":{"type":"capacityScheduler","queueName":"root","queues":{"queue":[{"queueName":"users","queueType":"parent"}]}}}}`, yarn.Assumptions{Undeclared: yarn.Undeclared{Fair: true}}, "root root.users"},
	} {
		if got := parents(t, test.answer, test.assume); got != test.want {
			t.Errorf("%s: %s; want %s", name, got, test.want)
		}
	}
}

// A parent in the setting may be missing from the answer: the cluster creates it on first use, or
// has removed it again.
func TestParentsThatAreNotThere(t *testing.T) {
	assume := yarn.Assumptions{Undeclared: yarn.Undeclared{Parents: []string{"root.users", "root.a.b.c"}}}
	s, err := yarn.Decode(strings.NewReader(`{"scheduler":{"schedulerInfo":{"type":"fairScheduler","rootQueue":{"queueName":"root","childQueues":{"queue":[` +
		`{"queueName":"root.default","type":"fairSchedulerLeafQueueInfo"},{"queueName":"root.a"}]}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	s.Assume = assume
	for _, q := range s.Queues(nil) {
		want := map[string]string{"root": "root.users root.a.b.c", "root.a": "root.a.b.c"}[q.Path]
		if got := strings.Join(q.CreatesBelow, " "); got != want || q.CreatesChildren {
			t.Errorf("%s creates below %q, children %v; want %q", q.Path, got, q.CreatesChildren, want)
		}
	}
}

// The setting names parents by their full paths.
func TestUndeclaredQueuesIsASetting(t *testing.T) {
	for value, fine := range map[string]bool{
		"any": true, "none": true, "root": true, "root.users": true, `["root.users","root.etl"]`: true, "root.users,root.etl": true,
		"root.users,": false, "root.users, root.etl": false, `["root.users,root.etl"]`: false, "[root.users,root.etl]": false,
		"users": false, "root.": false, "[]": false, `["root.users",""]`: false, "rooted.x": false,
	} {
		err := yarn.Kind().Check(map[string]string{"addresses": "http://rm1:8088", "undeclaredQueues": value})
		if (err == nil) != fine {
			t.Errorf("%s: %v", value, err)
		}
		if !fine && !strings.Contains(err.Error(), `root.users,root.adhoc, or ["root.users","root.adhoc"]`) {
			t.Errorf("%s: %v does not say how several are written", value, err)
		}
	}
}

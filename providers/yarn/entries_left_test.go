package yarn

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bursar/bursar/providers"
)

// A queue whose name no request can contain does not affect the others, and its use counts in its
// parent.
func TestAQueueWithANameThatIsTooLongIsLeftOut(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	for name, test := range map[string]struct{ body, total string }{
		"a name of the FairScheduler": {`{"type":"fairScheduler","rootQueue":{"queueName":"root","clusterResources":{"memory":9,"vCores":9},"childQueues":{"queue":[
			{"queueName":"root.a","usedResources":{"memory":1,"vCores":1},"numPendingApps":1,"numActiveApps":2},
			{"queueName":"root.` + long + `","childQueues":{"queue":[{"queueName":"root.` + long + `.b","usedResources":{"memory":2,"vCores":1},"numPendingApps":1,"numActiveApps":1}]}},
			{"queueName":"root.` + long[:maxName-6] + `y.z","usedResources":{"memory":3,"vCores":1},"numPendingApps":0,"numActiveApps":1}]}}}`, "6291456 6"},
		"a path of the CapacityScheduler": {`{"type":"capacityScheduler","queueName":"root","queues":{"queue":[
			{"queueName":"a","resourcesUsed":{"memory":1,"vCores":1},"numApplications":3},
			{"queueName":"` + long[:maxName] + `","resourcesUsed":{"memory":5,"vCores":1},"numApplications":2,"queues":{"queue":[{"queueName":"b","resourcesUsed":{"memory":2,"vCores":1}}]}}]}}`, "6291456 5"},
		"what the queue above says itself": {`{"type":"capacityScheduler","queueName":"root","numApplications":9,"resourcesUsed":{"memory":9,"vCores":1},"queues":{"queue":[
			{"queueName":"a","resourcesUsed":{"memory":1,"vCores":1},"numApplications":3},
			{"queueName":"` + long + `","resourcesUsed":{"memory":5,"vCores":1},"numApplications":2}]}}`, "9437184 9"},
	} {
		s, err := Decode(strings.NewReader(`{"scheduler":{"schedulerInfo":` + test.body + `}}`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		queues := s.Queues(nil)
		got := fmt.Sprint(queues[0].Used.Memory(), *queues[0].Applications)
		if len(queues) != 2 || queues[1].Path != "root.a" || got != test.total {
			t.Errorf("%s: %d queues, root has %s, want %s", name, len(queues), got, test.total)
		}
		if doubts := s.Doubts(); !strings.HasPrefix(doubts, "left out: a queue below root, with a path of more than 2048 bytes") {
			t.Errorf("%s: %s", name, doubts)
		}
	}
}

// Beyond a limit they are only counted.
func TestManyQueuesThatAreLeftOut(t *testing.T) {
	queue := `,{"queueName":"` + strings.Repeat("x", maxName+1) + `"}`
	s, err := Decode(strings.NewReader(`{"scheduler":{"schedulerInfo":{"queueName":"root","queues":{"queue":[{"queueName":"a"}` + strings.Repeat(queue, 20) + `]}}}}`))
	if err != nil || len(s.Entries) != 2 || !strings.HasSuffix(s.Doubts(), " and 15 more") {
		t.Errorf("%v, %v", s, err)
	}
}

// A queue with too many users is closed to new requests; the others are unaffected. The total
// number of users in all queues is bounded, too.
func TestAQueueWithTooManyUsersTakesNothingNew(t *testing.T) {
	users := func(n int, partitions string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,{"username":"u%d","resourcesUsed":{"memory":1,"vCores":1}%s}`, i, partitions)
		}
		return `"users":{"user":[` + strings.TrimPrefix(b.String(), ",") + `]}`
	}
	two := `,"resources":{"resourceUsagesByPartition":[{"partitionName":"a","used":{"memory":1}},{"partitionName":"b","used":{"memory":1}}]}`
	most, several, more := users(maxUsers, ""), users(maxUsers, two), users(maxUsers+1, "")
	queue := func(name, users string) string {
		return `{"queueName":"` + name + `","state":"RUNNING","resourcesUsed":{"memory":7,"vCores":1},` + users + `}`
	}
	body := `{"scheduler":{"schedulerInfo":{"type":"capacityScheduler","queueName":"root","queues":{"queue":[` + strings.Join([]string{
		queue("a", more), queue("b", most), strings.Join(slices.Repeat([]string{queue("NAME", several)}, 7), ","), queue("z", users(2, "")),
	}, ",") + `]}}}}`
	for n := range 7 {
		body = strings.Replace(body, "NAME", fmt.Sprint("q", n), 1)
	}
	s, err := Decode(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, q := range s.Queues(nil)[1:] {
		got = append(got, fmt.Sprint(q.Path, " ", len(q.Users), " ", q.Closed, " ", q.Used.Memory()>>20))
	}
	// 10,000, and six times 30,000.
	want := []string{"root.a 0 true 7", "root.b 10000 false 7"}
	for n := range 6 {
		want = append(want, fmt.Sprintf("root.q%d 10000 false 7", n))
	}
	want = append(want, "root.q6 0 true 7", "root.z 2 false 7")
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if doubts := s.Doubts(); !strings.HasPrefix(doubts, "left out: the users of root.a, which are too many, so it takes nothing new, the users of root.q6,") {
		t.Error(doubts)
	}
}

// Overlong queue and user names do not hide applications in the list.
func TestAListWithNamesThatAreTooLong(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	found := map[string]providers.Application{}
	err := readApplications(strings.NewReader(`{"apps":{"app":[{"id":"application_1_1","state":"RUNNING","queue":"root.`+long+`","user":"`+long+`"},{"id":"application_1_2","state":"RUNNING","queue":"root.a"}]}}`), func(string) bool { return true }, found)
	if err != nil || len(found) != 2 || found["application_1_1"].Queue != "" || found["application_1_2"].Queue != "root.a" {
		t.Errorf("%v, %v", found, err)
	}
}

//go:build linux

package linkis

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/yarn"
)

// queue is what engines ask for: a quarter of a cluster of 64 GiB and 64 cores, which is as much as
// it may ever have.
const (
	queue       = "root.linkis"
	queueMemory = int64(16 << 30)
)

// Linkis's codes and words for a queue that is full.
const (
	cpuShort    = "Insufficient cluster queue cpu"
	memoryShort = "Insufficient cluster queue memory"
)

// queues is a Linkis next to a real YARN.
type queues struct {
	*world

	cluster *yarn.Cluster
}

// TestQueues asks for engines of the type DriverAndYarn. What they get is what their queue has,
// less what others use there.
func TestQueues(t *testing.T) {
	q := &queues{}
	q.world = newWorld(t, options{hosts: 1, clusters: func() string {
		q.cluster = yarn.Start(t, yarn.Options{Capacity: map[string]string{
			"root.queues": "linkis,rest", "root.linkis.capacity": "25", "root.linkis.maximum-capacity": "25", "root.linkis.user-limit-factor": "100",
			"root.rest.capacity": "75",
		}})
		file := filepath.Join(t.TempDir(), "providers.yaml")
		text := fmt.Sprintf("providers:\n  - kind: yarn\n    cluster: default\n    default: true\n    settings: {addresses: %q, interval: 2s}\n", q.cluster.Addresses())
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "providersFile: " + file + "\n"
	}})
	q.startManager(enforced, map[string]string{"linkis.bursar.wait.max": "0s"})
	q.manager.listed()
	q.startECM(q.hosts[0])
	q.awaitQueue("nothing is used", 0, 0)
	for _, s := range []step{
		{"the queue has room for four", q.fillsUp},
		{"others use the queue", q.othersUse},
		{"an engine's own application counts once", q.applicationCounts},
	} {
		t.Run(s.name, func(t *testing.T) {
			outer := q.t
			q.t, q.db.t = t, t
			defer func() { q.t, q.db.t = outer, outer }()
			s.f(t)
		})
	}
}

// wants is a request for a part of the queue.
func (q *queues) wants(gibibytes, cores int64) values {
	return values{
		"ecm": q.hosts[0].instance(), "memory": 128 << 20, "user": "hadoop", "queue": queue, "queueMemory": gibibytes << 30, "queueCores": cores, "wait": 0,
	}
}

// refusedBy asks for what there is not. The refusal must have Linkis's code and wording, and
// Bursar's words after them.
func (q *queues) refusedBy(query values, texts ...string) {
	q.t.Helper()
	a := q.ask("request", query)
	q.t.Logf("refused: %v", a)
	reason := a.text("refused")
	for _, text := range append(texts, "Bursar: ", "queue yarn:default:"+queue) {
		if !strings.Contains(reason, text) {
			q.t.Errorf("want a refusal with %q: %v", text, a)
		}
	}
	if can := q.ask("can", query); !strings.Contains(fmt.Sprint(can), "false") {
		q.t.Errorf("whether it could be requested: %v", can)
	}
}

// awaitQueue waits until Bursar's account of the queue has so much of ours and of others, in GiB.
func (q *queues) awaitQueue(what string, ours, others int64) {
	q.t.Helper()
	q.awaitOf(queue, what, queueMemory>>30, ours, others)
}

// awaitOf waits until Bursar's account of a queue has such a limit, and so much of ours and of
// others, in GiB.
func (q *queues) awaitOf(path, what string, limit, ours, others int64) {
	q.t.Helper()
	eventually(q.t, what, func() error {
		answer, err := q.bursar.Queues().Get(q.t.Context(), &bursarv1.QueueServiceGetRequest{Kind: "yarn", Cluster: "default", Path: path})
		if err != nil {
			return err
		}
		account := answer.GetQueue().GetAccount()
		own := account.GetUsed().GetMemoryBytes() + account.GetReserved().GetMemoryBytes()
		if account.GetLimit().GetMemoryBytes() != limit<<30 || own != ours<<30 || account.GetUsedByOthers().GetMemoryBytes() != others<<30 {
			return fmt.Errorf("%v", account)
		}
		return nil
	})
}

func (q *queues) returns(tickets ...string) {
	q.t.Helper()
	for _, ticket := range tickets {
		q.ask("release", values{"ticket": ticket, "ecm": q.hosts[0].instance(), "user": "hadoop", "queue": queue})
	}
	q.awaitNothing("after the release")
}

func (q *queues) fillsUp(t *testing.T) {
	query := q.wants(4, 4)
	var tickets []string
	for range queueMemory / (4 << 30) {
		tickets = append(tickets, q.grant(query))
	}
	q.awaitQueue("all of the queue is ours", 16, 0)
	q.refusedBy(query, cpuShort, "4cores", "0cores", "16cores")
	q.refusedBy(q.wants(4, 0), memoryShort, "4GB", "0GB", "16GB")
	eventually(t, "Linkis's row of the user has the queue's part", func() error {
		rows, err := q.db.query("SELECT r.locked_resource FROM linkis_cg_manager_linkis_resources r JOIN linkis_cg_manager_label_resource lr ON lr.resource_id = r.id " +
			"JOIN linkis_cg_manager_label l ON l.id = lr.label_id WHERE l.label_key = 'combined_userCreator_engineType' AND r.resourceType = 'DriverAndYarn'")
		if err == nil && !strings.Contains(strings.Join(rows, " "), fmt.Sprint(queueMemory)) {
			err = fmt.Errorf("rows %v", rows)
		}
		return err
	})
	used := q.wants(4, 4)
	used["ticket"] = tickets[0]
	q.ask("used", used)
	q.refusedBy(query, cpuShort)
	q.ask("release", used)
	again := q.grant(query)
	q.refusedBy(query, cpuShort)
	q.returns(append(tickets[1:], again)...)
	q.awaitQueue("nothing is ours", 0, 0)
	if a := q.ask("request", q.wants(17, 1)); !strings.Contains(a.text("refused"), "never fit") {
		t.Errorf("want a refusal that is for good: %v", a)
	}
}

// othersUse: an application that Linkis knows nothing of has ten of sixteen GiB.
func (q *queues) othersUse(t *testing.T) {
	other := q.cluster.Submit(t, yarn.Application{Queue: queue, MemoryMiB: 10 << 10, VCores: 2, User: "bob"})
	q.cluster.AwaitAllocated(t, other)
	q.awaitQueue("others use ten GiB", 0, 10)
	q.refusedBy(q.wants(8, 2), memoryShort, "8GB", "6GB", "16GB")
	ticket := q.grant(q.wants(6, 2))
	q.refusedBy(q.wants(1, 1), memoryShort)
	q.returns(ticket)
	q.cluster.Kill(t, other)
	q.awaitQueue("others use nothing", 0, 0)
	q.returns(q.grant(q.wants(8, 2)))
}

// applicationCounts: the application that an engine names is what was granted, not more.
func (q *queues) applicationCounts(t *testing.T) {
	query := q.wants(8, 8)
	ticket := q.grant(query)
	own := q.cluster.Submit(t, yarn.Application{Queue: queue, MemoryMiB: 8 << 10, VCores: 8, User: "hadoop"})
	q.cluster.AwaitAllocated(t, own)
	query["ticket"], query["application"] = ticket, own
	q.ask("used", query)
	if ids := q.allocation(ticket).GetApplicationIds(); len(ids) != 1 || ids[0] != own {
		t.Errorf("Bursar has applications %v, want %s", ids, own)
	}
	q.awaitQueue("it counts once", 8, 0)
	rest := q.grant(q.wants(8, 8))
	q.refusedBy(q.wants(1, 1), cpuShort)
	q.cluster.Kill(t, own)
	q.returns(ticket, rest)
}

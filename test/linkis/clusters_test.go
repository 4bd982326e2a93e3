//go:build linux

package linkis

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bursar/bursar/test/yarn"
)

// The origin's and the target's rule with thresholds that nothing reaches, as properties of a
// request.
var (
	originRule = map[string]string{
		"acrossClusterTask": "true", "priorityCluster": "bdap", "originCPUPercentageThreshold": "0.95", "originMemoryPercentageThreshold": "0.95",
	}
	targetRule = map[string]string{
		"acrossClusterTask": "true", "priorityCluster": "bdp", "targetCPUThreshold": "1", "targetMemoryThreshold": "1",
		"targetCPUPercentageThreshold": "0.95", "targetMemoryPercentageThreshold": "0.95",
	}
)

// Answers to a request, as its caller tells them apart: by the code, and by the words that it looks
// for.
const (
	ruleBroken = "12013"
	goElse     = "12013, origin cluster retry"
	queueShort = "12010"
	thrown     = "an exception"
	grantedIt  = "granted"
)

// judged is a request with a rule, and the answer that it must get from stock Linkis and from
// Bursar.
type judged struct {
	name       string
	rule       map[string]string
	properties map[string]string // over those of the rule
	more       values            // over what is asked for
	want       string
}

// whileOthersUseTen are requests while others have 10 GiB and 2 cores of a queue of 16, and as much
// of a cluster of 64.
func whileOthersUseTen() []judged {
	hive := values{"engine": "hive", "queue": nil}
	return []judged{
		{"below the origin's thresholds", originRule, nil, nil, grantedIt},
		{"at the origin's memory", originRule, map[string]string{"originMemoryPercentageThreshold": "0.625"}, nil, goElse},
		{"at the origin's cores", originRule, map[string]string{"originCPUPercentageThreshold": "0.125"}, nil, goElse},
		{"the origin's rule before the queue", originRule, map[string]string{"originMemoryPercentageThreshold": "0.6"}, values{"queueMemory": 8 << 30}, goElse},
		{"too little in the queue", originRule, nil, values{"queueMemory": 8 << 30}, queueShort},
		{"below the target's thresholds", targetRule, map[string]string{"targetCPUThreshold": "14", "targetMemoryThreshold": "6"}, nil, grantedIt},
		{"too few cores left", targetRule, map[string]string{"targetCPUThreshold": "15"}, nil, ruleBroken},
		{"too little memory left", targetRule, map[string]string{"targetMemoryThreshold": "7"}, nil, ruleBroken},
		{"at the target's memory", targetRule, map[string]string{"targetMemoryPercentageThreshold": "0.625"}, nil, ruleBroken},
		{"at the target's cores", targetRule, map[string]string{"targetCPUPercentageThreshold": "0.125"}, nil, ruleBroken},
		{"the queue before the target's rule", targetRule, map[string]string{"targetMemoryPercentageThreshold": "0.6"}, values{"queueMemory": 8 << 30}, queueShort},
		{"a threshold that is no number", originRule, map[string]string{"originCPUPercentageThreshold": "much"}, nil, ruleBroken},
		{"a threshold that is missing", originRule, map[string]string{"originCPUPercentageThreshold": "", "originMemoryPercentageThreshold": "0.1"}, nil, grantedIt},
		{"another cluster", originRule, map[string]string{"priorityCluster": "elsewhere", "originMemoryPercentageThreshold": "0.1"}, nil, grantedIt},
		{"no such task", originRule, map[string]string{"acrossClusterTask": "false", "originMemoryPercentageThreshold": "0.1"}, nil, grantedIt},
		{"neither yes nor no", originRule, map[string]string{"acrossClusterTask": "maybe"}, nil, thrown},
		{"a listed type, by the queue of its property", originRule, map[string]string{"wds.linkis.rm.yarnqueue": "linkis", "originMemoryPercentageThreshold": "0.6"}, hive, goElse},
		{"a listed type below its thresholds", targetRule, map[string]string{"wds.linkis.rm.yarnqueue": "linkis"}, hive, grantedIt},
		{"a listed type in a queue that there is not", originRule, map[string]string{"wds.linkis.rm.yarnqueue": "nowhere"}, hive, thrown},
	}
}

// whileTheClusterIsFull are requests while others have 55 of the cluster's 64 GiB.
func whileTheClusterIsFull() []judged {
	return []judged{
		{"the origin's rule is about its queue", originRule, nil, nil, grantedIt},
		{"the target's is about the cluster, too", targetRule, nil, nil, ruleBroken},
	}
}

// TestAcrossClusters asks stock Linkis and Linkis with the adapter for the same engines of tasks
// that may run in one of two clusters, next to the same YARN. What the callers tell apart must be
// the same.
func TestAcrossClusters(t *testing.T) {
	q := &queues{}
	q.world = newWorld(t, options{hosts: 1, clusters: func() string {
		q.cluster = yarn.Start(t, yarn.Options{Fair: `<allocations>
<queue name="linkis"><maxResources>16384 mb,16 vcores</maxResources></queue>
<queue name="rest"/>
<queueMaxAMShareDefault>-1.0</queueMaxAMShareDefault>
</allocations>`})
		file := filepath.Join(t.TempDir(), "providers.yaml")
		text := fmt.Sprintf("providers:\n  - kind: yarn\n    cluster: default\n    default: true\n    settings: {addresses: %q, interval: 2s}\n", q.cluster.Addresses())
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "providersFile: " + file + "\n"
	}})
	q.db.execute("DELETE FROM linkis_cg_rm_external_resource_provider")
	q.db.execute("INSERT INTO linkis_cg_rm_external_resource_provider (resource_type, name, config) VALUES ('Yarn', 'default', ?)",
		fmt.Sprintf(`{"rmWebAddress":%q,"hadoopVersion":"3.4.3","authorEnable":false}`, q.cluster.URL()))
	listed := map[string]string{"linkis.support.cluster.rule.ec.types": "hive", "linkis.bursar.wait.max": "0s"}
	own := q.cluster.Submit(t, yarn.Application{Queue: queue, MemoryMiB: 10 << 10, VCores: 2, User: "bob"})
	q.cluster.AwaitAllocated(t, own)
	full := ""
	for _, m := range []mode{stock, enforced} {
		q.startManager(m, listed)
		q.manager.listed()
		if q.hosts[0].ecm == nil {
			q.startECM(q.hosts[0])
			eventually(t, "Linkis knows the ECM's size", func() error {
				_, err := q.ecmRow(q.hosts[0])
				return err
			})
		}
		if full != "" {
			q.cluster.Kill(t, full)
		}
		q.awaitQueue("others use ten GiB", 0, 10)
		q.judge(t, m, whileOthersUseTen())
		full = q.cluster.Submit(t, yarn.Application{Queue: "root.rest", MemoryMiB: 45 << 10, VCores: 2, User: "bob"})
		q.cluster.AwaitAllocated(t, full)
		q.awaitOf("root", "others use 55 GiB", 64, 0, 55)
		q.judge(t, m, whileTheClusterIsFull())
		q.db.forgetEngines()
	}
}

// judge asks for each, and gives back what it is granted.
func (q *queues) judge(t *testing.T, m mode, requests []judged) {
	t.Helper()
	for _, r := range requests {
		query := values{
			"ecm": q.hosts[0].instance(), "engine": "spark", "memory": 128 << 20, "user": "hadoop", "queue": "linkis", "queueMemory": 1 << 30, "queueCores": 1, "wait": 0,
		}
		maps.Copy(query, r.more)
		maps.DeleteFunc(query, func(_ string, value any) bool { return value == nil })
		properties := maps.Clone(r.rule)
		maps.Copy(properties, r.properties)
		for name, value := range properties {
			query["property."+name] = value
		}
		a := q.ask("request", query)
		t.Logf("%s: %s: %v", m, r.name, a)
		if got := toldApart(a); got != r.want {
			t.Errorf("%s: %s: %s, want %s: %v", m, r.name, got, r.want, a)
		}
		if ticket := a.text("ticket"); ticket != "" {
			query["ticket"] = ticket
			q.ask("release", query)
		}
	}
	q.awaitNothing("after the requests")
}

var codeOf = regexp.MustCompile(`errCode: (\d+)`)

// toldApart is what a caller makes of an answer.
func toldApart(a answer) string {
	code := codeOf.FindStringSubmatch(a.text("refused"))
	switch {
	case a.text("ticket") != "":
		return grantedIt
	case a.text("error") != "":
		return thrown
	case code == nil:
		return fmt.Sprint(a)
	case strings.Contains(a.text("refused"), "origin cluster retry"):
		return code[1] + ", origin cluster retry"
	}
	return code[1]
}

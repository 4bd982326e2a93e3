package check

import (
	"strings"
	"testing"
)

// TestRulesForTasksAcrossClustersAreTold: what refuses every task or none needs somebody.
func TestRulesForTasksAcrossClustersAreTold(t *testing.T) {
	t.Parallel()
	const target = `{"queueRule":{"crossQueue":"etl"},"priorityClusterRule":{"priorityCluster":"bdp"},"targetClusterRule":{"targetCPUThreshold":"20","targetMemoryThreshold":"40","targetCPUPercentageThreshold":"0.8","targetMemoryPercentageThreshold":"0.8"}}`
	const origin = `{"queueRule":{"crossQueue":"etl"},"priorityClusterRule":{"priorityCluster":"bdap"},"originClusterRule":{"originCPUPercentageThreshold":"0.8","originMemoryPercentageThreshold":"0.8"}}`
	for _, test := range []struct {
		name, rules string
		attention   bool
		now, bursar string
	}{
		{"the target's", target, false, "tasks may run in cluster east, queue etl, bdp first", "of the queue root"},
		{"the origin's", origin, false, "bdap first", "figures of the queue: the cluster"},
		{"a share of more than all", strings.ReplaceAll(origin, `"0.8"`, `"80"`), true, "bdap first", "originCPUPercentageThreshold = 80 refuses nothing"},
		{"a share that is no number", strings.Replace(target, `"0.8"`, `"much"`, 1), true, "bdp first", "targetCPUPercentageThreshold refuses every such task: want a share"},
		{"NaN", strings.ReplaceAll(origin, `"0.8"`, `"NaN"`), true, "bdap first", "refuses every such task"},
		{"a part of a core", strings.Replace(target, `"20"`, `"1.5"`, 1), true, "bdp first", "targetCPUThreshold refuses every such task: want a whole number"},
		{"no priority", `{}`, true, "queue ?, neither first", "want bdap or bdp"},
		{"no JSON", `yes`, true, "a rule that cannot be read", "want Linkis's JSON"},
		{"numbers as such", `{"originClusterRule":{"originCPUPercentageThreshold":0.8}}`, true, "cannot be read", "JSON"},
		{"thresholds that are missing", `{"priorityClusterRule":{"priorityCluster":"bdap"}}`, false, "bdap first", "the same rule"},
	} {
		now, bursar, attention := acrossClusters("east", test.rules)
		if attention != test.attention || !strings.Contains(now, test.now) || !strings.Contains(bursar, test.bursar) {
			t.Errorf("%s: %q, %q, %t", test.name, now, bursar, attention)
		}
	}
}

// TestSettingsOfRulesAreTold: the adapter reads what Linkis reads.
func TestSettingsOfRulesAreTold(t *testing.T) {
	t.Parallel()
	found := map[string]string{}
	for _, f := range Settings(Properties{
		"linkis.yarn.across.cluster.cpu.threshold": "0.7", "linkis.yarn.across.cluster.memory.threshold": "0.7", "linkis.support.cluster.rule.ec.types": "hive",
	}) {
		found[f.Subject] = f.Bursar
	}
	for name, want := range map[string]string{
		"linkis.yarn.across.cluster.cpu.threshold": "kept: ", "linkis.yarn.across.cluster.memory.threshold": "kept: ", "linkis.support.cluster.rule.ec.types": "kept: ",
	} {
		if !strings.HasPrefix(found[name], want) {
			t.Errorf("%s: %q, want %q", name, found[name], want)
		}
	}
}

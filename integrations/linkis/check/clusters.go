package check

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Names that Linkis gives the two clusters of a task.
const (
	targetCluster = "bdp"
	originCluster = "bdap"
)

// clusters are the rules for tasks that may run in one of two clusters.
func (r *reader) clusters(ctx context.Context) {
	const query = "SELECT username, creator, cluster_name, rules FROM linkis_ps_configuration_across_cluster_rule WHERE is_valid = 'Y' ORDER BY username, creator"
	r.each(ctx, "linkis_ps_configuration_across_cluster_rule", query, 4, func(row []string) {
		f := Finding{Area: "queue", Subject: fmt.Sprintf("user=%s,creator=%s", row[0], row[1])}
		f.Now, f.Bursar, f.Attention = acrossClusters(row[2], row[3])
		r.findings = append(r.findings, f)
	})
}

// acrossClusters tells the fate of a rule, which Linkis stores as JSON.
func acrossClusters(cluster, text string) (now, bursar string, attention bool) {
	now = "tasks may run in cluster " + cluster
	var rule struct {
		Queue struct {
			Name string `json:"crossQueue"`
		} `json:"queueRule"`
		Priority struct {
			Cluster string `json:"priorityCluster"`
		} `json:"priorityClusterRule"`
		Target map[string]string `json:"targetClusterRule"`
		Origin map[string]string `json:"originClusterRule"`
	}
	if err := json.Unmarshal([]byte(text), &rule); err != nil {
		return now + ", by a rule that cannot be read", "want Linkis's JSON: LinkisManager gets its values as properties of a request", true
	}
	now += fmt.Sprintf(", queue %s, %s first", cmpOr(rule.Queue.Name, "?"), cmpOr(rule.Priority.Cluster, "neither"))
	switch rule.Priority.Cluster {
	case targetCluster:
		bursar = "the same rule, by Bursar's figures of the queue and of the queue root: the cluster needs a provider"
		for _, name := range []string{"targetCPUThreshold", "targetMemoryThreshold"} {
			if _, err := strconv.ParseInt(strings.TrimSpace(cmpOr(rule.Target[name], "0")), 10, 32); err != nil {
				return now, name + " refuses every such task: want a whole number", true
			}
		}
	case originCluster:
		bursar = "the same rule, by Bursar's figures of the queue: the cluster needs a provider"
	default:
		return now, "no rule, as in Linkis: want " + originCluster + " or " + targetCluster, true
	}
	shares := map[string]map[string]string{targetCluster: rule.Target, originCluster: rule.Origin}[rule.Priority.Cluster]
	prefix := map[string]string{targetCluster: "target", originCluster: "origin"}[rule.Priority.Cluster]
	for _, name := range []string{prefix + "CPUPercentageThreshold", prefix + "MemoryPercentageThreshold"} {
		share, err := strconv.ParseFloat(cmpOr(shares[name], "1"), 64)
		switch {
		case err != nil || math.IsNaN(share):
			return now, name + " refuses every such task: want a share such as 0.8", true
		case share > 1:
			return now, fmt.Sprintf("%s = %v refuses nothing: want a share such as 0.8", name, share), true
		}
	}
	return now, bursar, false
}

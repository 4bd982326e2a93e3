package main

import (
	"fmt"
	"strings"
)

// yarnCluster is a YARN cluster with a CapacityScheduler: leavesBelow leaves below each parent, and
// all parents below the root. It answers like Hadoop 3.4, with the fields of the answers in
// Hadoop's own tests.
type yarnCluster struct {
	queues int // without the root
	parity int // another parity has other figures
}

const (
	leavesBelow = 9
	// The size of the cluster, which is also the maximum of a queue.
	clusterMiB   = 100 << 20
	clusterCores = 100_000
)

// leaves returns the full paths of the queues for applications.
func (c yarnCluster) leaves() []string {
	var list []string
	for i := range c.queues {
		if parent, below := i/(leavesBelow+1), i%(leavesBelow+1); below > 0 {
			list = append(list, fmt.Sprintf("root.team-%d.queue-%d", parent, below-1))
		}
	}
	return list
}

// answer returns the body of /ws/v1/cluster/scheduler.
func (c yarnCluster) answer() []byte {
	var parents, leaves []string
	used, all := 0, 0
	closeParent := func() {
		name := fmt.Sprintf("team-%d", len(parents))
		parents = append(parents, yarnParent("root."+name, name, used, leaves))
		leaves, all, used = nil, all+used, 0
	}
	for i := range c.queues {
		below := i % (leavesBelow + 1)
		if below == 0 {
			if i > 0 {
				closeParent()
			}
			continue
		}
		name := fmt.Sprintf("queue-%d", below-1)
		own := 1 + (i+c.parity)%8
		used += own
		leaves = append(leaves, yarnLeaf(fmt.Sprintf("root.team-%d.%s", len(parents), name), name, own))
	}
	if c.queues > 0 {
		closeParent()
	}
	return fmt.Appendf(nil, yarnRoot, yarnCapacities(all), yarnAmount(8192, 4), yarnNames, strings.Join(parents, ","))
}

// yarnAmount returns a quantity of resources in Hadoop's format.
func yarnAmount(mib, cores int) string {
	return fmt.Sprintf(`{"memory":%[1]d,"vCores":%[2]d,"resourceInformations":{"resourceInformation":[`+
		`{"maximumAllocation":9223372036854775807,"minimumAllocation":0,"name":"memory-mb","resourceType":"COUNTABLE","units":"Mi","value":%[1]d},`+
		`{"maximumAllocation":9223372036854775807,"minimumAllocation":0,"name":"vcores","resourceType":"COUNTABLE","units":"","value":%[2]d}]}}`, mib, cores)
}

// yarnUsed returns the resources of so many applications.
func yarnUsed(applications int) string { return yarnAmount(1024*applications, applications) }

func yarnCapacities(applications int) string {
	return fmt.Sprintf(`{"queueCapacitiesByPartition":[{"partitionName":"","capacity":0,"usedCapacity":%[4]g,"maxCapacity":100,"absoluteCapacity":0.02,`+
		`"absoluteUsedCapacity":%[4]g,"absoluteMaxCapacity":100,"maxAMLimitPercentage":10,"weight":5,"normalizedWeight":0.1,`+
		`"configuredMinResource":%[1]s,"configuredMaxResource":%[1]s,"effectiveMinResource":%[2]s,"effectiveMaxResource":%[3]s}]}`,
		yarnAmount(0, 0), yarnAmount(20480, 20), yarnAmount(clusterMiB, clusterCores), 100*float64(applications)/clusterCores)
}

const (
	yarnNames = `{"queueAcl":[{"accessType":"ADMINISTER_QUEUE","accessControlList":" "},{"accessType":"APPLICATION_MAX_PRIORITY","accessControlList":"*"},` +
		`{"accessType":"SUBMIT_APP","accessControlList":" "}]}`
	yarnRoot = `{"scheduler":{"schedulerInfo":{"type":"capacityScheduler","capacity":100,"usedCapacity":0,"maxCapacity":100,"weight":-1,"normalizedWeight":0,` +
		`"queueName":"root","queuePath":"root","maxParallelApps":2147483647,"isAbsoluteResource":false,"capacities":%[1]s,` +
		`"health":{"lastrun":1700000000000,"operationsInfo":[],"lastRunDetails":[]},"maximumAllocation":%[2]s,"queueAcls":%[3]s,"queuePriority":0,` +
		`"orderingPolicyInfo":"utilization","mode":"weight","queueType":"parent","creationMethod":"static","autoCreationEligibility":"flexible",` +
		`"autoQueueTemplateProperties":{},"autoQueueParentTemplateProperties":{},"autoQueueLeafTemplateProperties":{},"queues":{"queue":[%[4]s]}}}}`
	yarnQueue = `"queuePath":%[1]q,"capacity":0,"usedCapacity":0,"maxCapacity":100,"absoluteCapacity":0.02,"absoluteMaxCapacity":100,"absoluteUsedCapacity":0,` +
		`"weight":5,"normalizedWeight":0.1,"numApplications":%[3]d,"maxParallelApps":2147483647,"queueName":%[2]q,"isAbsoluteResource":false,"state":"RUNNING",`
	yarnBoth = `"resourcesUsed":%[1]s,"hideReservationQueues":false,"nodeLabels":["*"],"allocatedContainers":%[6]d,"reservedContainers":0,"pendingContainers":0,` +
		`"capacities":%[2]s,"resources":{"resourceUsagesByPartition":[{"partitionName":"","used":%[1]s,"reserved":%[3]s,"pending":%[3]s%[4]s}]},` +
		`"minEffectiveCapacity":%[5]s,"maxEffectiveCapacity":%[7]s,"maximumAllocation":%[8]s,"queueAcls":%[9]s,"queuePriority":0,"autoCreateChildQueueEnabled":false,` +
		`"leafQueueTemplate":{},"mode":"weight","creationMethod":"static","autoQueueTemplateProperties":{},"autoQueueParentTemplateProperties":{},` +
		`"autoQueueLeafTemplateProperties":{}`
)

// yarnLeaf returns a leaf queue with so many applications in it.
func yarnLeaf(path, name string, applications int) string {
	none, share := yarnAmount(0, 0), yarnAmount(20480, 20)
	masters := fmt.Sprintf(`,"amUsed":%s,"amLimit":%s,"userAmLimit":%s`, none, share, none)
	return `{"type":"capacitySchedulerLeafQueueInfo",` + fmt.Sprintf(yarnQueue, path, name, applications) + yarnCommon(applications, masters) +
		fmt.Sprintf(`,"orderingPolicyInfo":"fifo","queueType":"leaf","autoCreationEligibility":"off","numActiveApplications":%[1]d,"numPendingApplications":0,`+
			`"numContainers":%[1]d,"maxApplications":1000,"maxApplicationsPerUser":1000,"userLimit":100,"users":{},"userLimitFactor":1,`+
			`"configuredMaxAMResourceLimit":0.1,"AMResourceLimit":%[2]s,"usedAMResource":%[3]s,"userAMResourceLimit":%[2]s,"preemptionDisabled":true,`+
			`"intraQueuePreemptionDisabled":true,"defaultPriority":0,"isAutoCreatedLeafQueue":false,"maxApplicationLifetime":-1,"defaultApplicationLifetime":-1}`,
			applications, share, none)
}

func yarnParent(path, name string, applications int, leaves []string) string {
	return `{` + fmt.Sprintf(yarnQueue, path, name, applications) + `"queues":{"queue":[` + strings.Join(leaves, ",") + `]},` + yarnCommon(applications, "") +
		`,"orderingPolicyInfo":"utilization","queueType":"parent","autoCreationEligibility":"flexible"}`
}

// yarnCommon returns the fields of every queue whose applications have masters.
func yarnCommon(applications int, masters string) string {
	return fmt.Sprintf(yarnBoth, yarnUsed(applications), yarnCapacities(applications), yarnAmount(0, 0), masters, yarnAmount(20480, 20), applications,
		yarnAmount(clusterMiB, clusterCores), yarnAmount(8192, 4), yarnNames)
}

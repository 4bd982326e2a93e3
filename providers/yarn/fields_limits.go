package yarn

import "github.com/bursar/bursar/resource"

// applicationLimits holds a queue's limits other than resources: for applications, their masters
// and users.
type applicationLimits struct {
	perUser, parallel *int32 // applications
	containers        *int32
	// Of the default partition. userAMLimit is the first user's limit if users have weights.
	amLimit, amUsed, userAMLimit *resource.Vector
	// userPercent is minimum-user-limit-percent. factor is user-limit-factor; -1: none.
	userPercent, factor *float64
	users               []userNode
	crowded             bool // it has too many users, and none was kept
	autoCreated         bool
	largest             *resource.Vector // container
	// The FairScheduler's shares of the queue: among the active queues, and among all queues.
	fairShare, steadyShare *resource.Vector
	policy                 string // the FairScheduler's policy to divide the share
}

// userNode is a user in a queue of the CapacityScheduler, as decoded.
type userNode struct {
	name            string
	used, amUsed    *resource.Vector // of the default partition
	pending, active *int32
	weight          *float64
	isActive        bool
	usages          []usage
}

const (
	// maxUsers bounds the users that are kept for one queue.
	maxUsers = 10_000
	// maxAllUsers bounds the users that are kept for all queues; a user counts once more for each
	// partition that it uses. This is about 200 MB.
	maxAllUsers = 200_000
)

// limitFields maps the keys of applicationLimits to their readers.
var limitFields = map[string]nodeField{
	// The CapacityScheduler.
	"maxApplicationsPerUser": number(func(n *node) **int32 { return &n.perUser }),
	"maxParallelApps":        number(func(n *node) **int32 { return &n.parallel }),
	"numContainers":          number(func(n *node) **int32 { return &n.containers }),
	"AMResourceLimit":        vector(roleLimit, func(n *node) **resource.Vector { return &n.amLimit }),
	"usedAMResource":         vector(roleTaken, func(n *node) **resource.Vector { return &n.amUsed }),
	"userAMResourceLimit":    vector(roleLimit, func(n *node) **resource.Vector { return &n.userAMLimit }),
	"userLimit":              figure((*reader).percent, func(n *node) **float64 { return &n.userPercent }),
	"userLimitFactor":        figure((*reader).factor, func(n *node) **float64 { return &n.factor }),
	"users":                  readUsers,
	"maximumAllocation":      vector(roleLimit, func(n *node) **resource.Vector { return &n.largest }),
	// The FairScheduler.
	"maxContainerAllocation": vector(roleLimit, func(n *node) **resource.Vector { return &n.largest }),
	"amMaxResources":         vector(roleLimit, func(n *node) **resource.Vector { return &n.amLimit }),
	"amUsedResources":        vector(roleTaken, func(n *node) **resource.Vector { return &n.amUsed }),
	"fairResources":          vector(rolePromised, func(n *node) **resource.Vector { return &n.fairShare }),
	"schedulingPolicy":       word(func(n *node) *string { return &n.policy }),
	"steadyFairResources":    vector(rolePromised, func(n *node) **resource.Vector { return &n.steadyShare }),
}

// readUsers reads the users of a queue. If there are too many it keeps none: with some of them
// missing, a user's limit in the queue would be unknown.
func readUsers(r *reader, n *node) error {
	before := r.users
	return readList(r, "user", userField, func(u *userNode) error {
		if n.crowded {
			return nil
		}
		r.users += 1 + len(u.usages)
		if len(n.users) == maxUsers || r.users > maxAllUsers {
			n.crowded, n.users, r.users = true, nil, before
			return nil
		}
		n.users = append(n.users, *u)
		return nil
	})
}

func userField(r *reader, u *userNode, key []byte) (err error) {
	switch string(key) {
	case "username":
		err = chosen(r, &u.name)
	case "resourcesUsed":
		u.used, err = r.vector(roleTaken)
	case "AMResourceUsed":
		u.amUsed, err = r.vector(roleTaken)
	case "numPendingApplications":
		u.pending, err = r.count()
	case "numActiveApplications":
		u.active, err = r.count()
	case "userWeight":
		u.weight, err = r.percent()
	case "isActive":
		u.isActive, err = r.boolean()
	case "resources":
		err = readList(r, "resourceUsagesByPartition", usageField, func(of *usage) error {
			u.usages = append(u.usages, *of)
			return fewPartitions(len(u.usages))
		})
	default:
		err = r.skip()
	}
	return err
}
